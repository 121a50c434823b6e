package aggregator.connector;

import org.apache.kafka.common.TopicPartition;

/** Decides of a fetched batch whether it goes to the hub as it is, before it is unpacked. */
interface Passing {
    /** `from`: its records below this offset were not asked for. */
    boolean takes(TopicPartition of, BatchHead batch, long from);
}
