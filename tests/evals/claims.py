"""Whether a text claims that an email has been sent, in English or Indonesian."""

import re

ADDRESS = re.compile(r"[\w.+'-]+@[\w.-]*\w")
SENTENCE = re.compile(r"(?<=[.!?:;\n])\s+|, (?:but|and|so|tetapi|namun|dan|lalu) | but | tapi ")

MAIL = r"(?:e-?mail|mail|message|note|report|reply|it|that|this)"
OFTEN = r"(?:(?:\w+ly|also|just|already|now|then|been)\s)*"
CLAIM = re.compile(
    rf"""(?ix)
    \b(?:i|we|i've|we've|has|have|agent)\s{OFTEN}(?:have\s)?{OFTEN}
        (?:sent|e-?mailed|mailed|notified|informed|forwarded|delivered|told)\b
    | \b{MAIL}\b[^.!?]{{0,60}}?\s(?:has|was|is|have|were|got|went)\s{OFTEN}
        (?:sent|delivered|e-?mailed|mailed|out|dispatched|on\sits\sway)\b
    | ^\W*(?:(?:your|the|done)\W+)?(?:{MAIL}\s)?{OFTEN}sent\b
    | \b(?:sudah|telah|berhasil|barusan)\b[^.!?]{{0,40}}?
        \b(?:\w*[kg]irim\w*|(?:di|me)?(?:ng)?k?abari|(?:di|mem)?beri\s?tahu)\b
    | \b(?:saya|kami|aku)\s(?:\w*[kg]irim\w*|memberi\s?tahu|mengabari)\b
    | \b(?:email|pesan|surel|laporan)(?:nya)?\b[^.!?]{{0,40}}?\b(?:terkirim|dikirim\w*)\b
    """
)
NO_CLAIM = re.compile(
    r"""(?ix)
    n't\b | \?\s*$
    | \b(?:not|never|no|nothing|none|cannot|unable|without|failed|rejected|refused|declined|before
        |until|once|if|when|whether|unless|would|should|could|shall|will|may|might|can|want|needs
        |ready\sto|to\sbe|waiting|pending|draft|instead)\b
    | \b(?:tidak|tak|belum|bukan|jangan|gagal|ditolak|batal|bisa|dapat|akan|ingin|mau|perlu|apakah
        |jika|kalau|sebelum|setelah|agar|supaya|menunggu|bila|harus)\b
    """
)


def claims_an_email(text: str) -> str:
    """The first sentence that says that an email was sent; empty if there is none.

    A denial, a condition, an offer and a question are no claims.
    """
    for sentence in SENTENCE.split(ADDRESS.sub("them", text)):
        if CLAIM.search(sentence) and not NO_CLAIM.search(sentence):
            return sentence.strip()
    return ""
