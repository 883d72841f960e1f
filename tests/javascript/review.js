// A JavaScript client: streams a run, finds the review that it paused for, answers it by its id,
// and prints what it saw as JSON.   node review.js URL AGENT TEXT ANSWER
import { Client } from "@langchain/langgraph-sdk";

const [url, agent, text, answer] = process.argv.slice(2);
const client = new Client({ apiUrl: url });
const { thread_id: thread } = await client.threads.create();

/** Stream a run; return the text of the messages and the nodes that wrote, in order. */
async function watch(run) {
  const seen = { text: "", nodes: [] };
  const streamMode = ["messages-tuple", "updates"];
  for await (const { event, data } of client.runs.stream(thread, agent, { ...run, streamMode })) {
    if (event === "error") throw new Error(JSON.stringify(data));
    if (event === "messages" && data[0].type === "AIMessageChunk") seen.text += data[0].content;
    if (event === "updates") seen.nodes.push(...Object.keys(data));
  }
  return seen;
}

/** The interrupts that wait on the thread. */
async function pending() {
  const state = await client.threads.getState(thread);
  return state.tasks.flatMap((task) => task.interrupts);
}

const before = await watch({ input: { messages: [{ role: "user", content: text }] } });
const reviews = await pending();
const resume = Object.fromEntries(reviews.map(({ id }) => [id, JSON.parse(answer)]));
const after = await watch({ command: { resume } });
const left = await pending();
console.log(JSON.stringify({ before, reviews: reviews.map(({ value }) => value), after, left }));
