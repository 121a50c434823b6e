// What a difference between a topic at the hub and at its sources means.

const MEANINGS = {
  partitions: "The hub has its own number: keys are placed again, and order is kept by key.",
  "replication factor": "How many brokers hold each record: each cluster decides for itself.",
  "cleanup.policy": "Compaction keeps the newest record of a key, deletion goes by age or size.",
  "compression.type": "How the broker stores batches; producer keeps what it is sent.",
  "delete.retention.ms": "How long deletions of keys remain readable after compaction.",
  "max.message.bytes": "A record that is larger than the hub takes goes to quarantine.",
  "message.timestamp.type": "With LogAppendTime the hub replaces the time of a record by its own.",
  "min.insync.replicas": "How many replicas must have a record before it is acknowledged.",
  "retention.bytes": "The oldest records of a partition are deleted beyond this size.",
  "retention.ms": "Records older than this are deleted; timestamps are kept, so old ones go soon.",
  "segment.bytes": "How much a log file holds: deletion and compaction work on whole files.",
  "segment.ms": "How long a log file is written: deletion and compaction work on whole files.",
};

/** What a config does, for those that most often differ; "" for others. */
export const explained = (name) => MEANINGS[name] ?? "";
