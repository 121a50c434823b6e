package aggregator.connector;

import java.io.Serializable;
import org.apache.kafka.common.utils.Utils;

/**
 * The hub partition of a record, as a function of the record alone: one that is written again goes
 * where it was, or would have been, the first time. Pure.
 */
final class Placement implements Serializable {
    private static final long serialVersionUID = 1L;

    /** How many offsets of a source partition without a key stay together: they fill batches. */
    static final int CHUNK = 4096;

    private enum Rule { KEY, SOURCE_PARTITION, ROUND_ROBIN, CLUSTER }

    private final Rule rule;
    private final int partitions;
    private final int fixed;

    private Placement(Rule rule, int partitions, int fixed) {
        this.rule = rule;
        this.partitions = partitions;
        this.fixed = fixed;
    }

    /** By the name of the config; `fixed` is the partition of everything for `cluster`. */
    static Placement of(String name, int partitions, int fixed) {
        return new Placement(
            Rule.valueOf(name.toUpperCase(java.util.Locale.ROOT)), partitions, fixed);
    }

    int of(byte[] key, int partition, long offset) {
        switch (rule) {
            case SOURCE_PARTITION:
                return partition % partitions;
            case ROUND_ROBIN:
                return (int) Math.floorMod(partition + offset, (long) partitions);
            case CLUSTER:
                return fixed;
            default:
                return key == null ? chunk(partition, offset) : murmur2(key);
        }
    }

    /** Whether records of one key and one source partition go to several hub partitions. */
    boolean spreadsKeys() {
        return rule == Rule.ROUND_ROBIN;
    }

    /** As every Kafka client with the Java default partitioner. */
    private int murmur2(byte[] key) {
        return Utils.toPositive(Utils.murmur2(key)) % partitions;
    }

    private int chunk(int partition, long offset) {
        return (int) Math.floorMod(partition + offset / CHUNK, (long) partitions);
    }
}
