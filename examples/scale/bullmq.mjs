// All shards as jobs of a BullMQ queue on Redis or Valkey. A job whose worker dies is stalled, and another takes it.
//
//   node bullmq.mjs work                          a worker: takes shards until it is stopped
//   node bullmq.mjs add N PARTS MODEL OPTION...   adds the shards, and waits until all are done
//
// Both in a folder with node_modules/bullmq; REDIS is the server (redis://127.0.0.1:6379), SHARD the calibrate_shard.sh
// of this folder.
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { Queue, QueueEvents, Worker } from "bullmq";

const url = new URL(process.env.REDIS ?? "redis://127.0.0.1:6379");
const connection = { host: url.hostname, port: Number(url.port || 6379), maxRetriesPerRequest: null };
const name = "qdq-calibrate";
const shard = process.env.SHARD ?? fileURLToPath(new URL("calibrate_shard.sh", import.meta.url));

async function work() {
  const run = promisify(execFile);
  const worker = new Worker(name, async ({ data: { k, words } }) => void (await run(shard, [String(k), ...words])), {
    connection,
    concurrency: 1,
    // How soon the jobs of a worker that died are given to others.
    lockDuration: 5000,
    stalledInterval: 5000,
    maxStalledCount: 3,
  });
  worker.on("failed", (job, error) => console.error(`shard ${job?.data.k}: ${error.message}`));
}

async function add([count, ...words]) {
  const queue = new Queue(name, { connection });
  const events = new QueueEvents(name, { connection });
  await events.waitUntilReady();
  const jobs = await queue.addBulk(
    Array.from({ length: Number(count) }, (_, i) => ({
      name: "shard",
      data: { k: i + 1, words: [count, ...words] },
      opts: { attempts: 3, removeOnComplete: false },
    })),
  );
  await Promise.all(jobs.map((job) => job.waitUntilFinished(events)));
  await events.close();
  await queue.obliterate({ force: true });
  await queue.close();
}

const [verb, ...rest] = process.argv.slice(2);
if (verb === "work") await work();
else if (verb === "add") await add(rest);
else throw new Error("wanted: node bullmq.mjs work, or node bullmq.mjs add N PARTS MODEL OPTION...");
