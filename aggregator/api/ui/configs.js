// What a difference between a topic at the hub and at its sources means.

const MEANINGS = {
  partitions: "The hub has its own number: keys are placed again, and order is kept by key.",
  "replication factor": "How many brokers hold each record: each cluster decides for itself.",
  "cleanup.policy": "Compaction keeps the newest record of a key, deletion goes by age or size.",
  "compression.type": "How the broker stores batches; producer keeps what it is sent.",
  "delete.retention.ms": "How long deletions of keys remain readable after compaction.",
  "max.message.bytes": "A record that is larger than the hub takes goes to quarantine.",
  "message.timestamp.after.max.ms":
    "How far in the future the time of a record may be: the hub takes what the source has taken.",
  "message.timestamp.before.max.ms":
    "How old the time of a record may be: the hub takes what the source has taken.",
  "message.timestamp.type": "With LogAppendTime the hub replaces the time of a record by its own.",
  "min.insync.replicas": "How many replicas must have a record before it is acknowledged.",
  "retention.bytes": "The oldest records of a partition are deleted beyond this size.",
  "retention.ms": "Records older than this are deleted; timestamps are kept, so old ones go soon.",
  "segment.bytes": "How much a log file holds: deletion and compaction work on whole files.",
  "segment.ms": "How long a log file is written: deletion and compaction work on whole files.",
};

const UNITS = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["min", 60_000],
  ["s", 1000],
  ["ms", 1],
];
/** Kafka's largest number, as JavaScript has it. */
const LARGEST = 2 ** 63;

/** The value of a config with its unit, exactly: what differs must look different. */
export function readable(name, value) {
  const [, unit] = /[.](ms|bytes)$/.exec(name) ?? [];
  const number = Number(value);
  if (!unit || !value || !Number.isInteger(number)) return value;
  if (number < 0 || number >= LARGEST) return "no limit";
  if (unit === "bytes") return `${number.toLocaleString("en")} B`;
  const [word, size] = (number && UNITS.find(([, each]) => number % each === 0)) || UNITS.at(-1);
  return `${(number / size).toLocaleString("en")} ${word}`;
}

/** What a config does, for those that most often differ; "" for others. */
export const explained = (name) => MEANINGS[name] ?? "";
