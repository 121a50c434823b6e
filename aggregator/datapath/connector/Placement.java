package aggregator.connector;

import java.io.Serializable;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;

/**
 * The hub partition of a record, as a function of the record alone: one that is written again goes
 * where it was, or would have been, the first time. Pure.
 */
final class Placement implements Serializable {
    private static final long serialVersionUID = 1L;

    /** How many offsets of a source partition without a key stay together: they fill batches. */
    static final int CHUNK = 4096;

    private static final int MURMUR_SEED = 0x9747b28c;
    private static final int MURMUR = 0x5bd1e995;
    private static final VarHandle WORDS =
        MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.LITTLE_ENDIAN);

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
        return of(key, 0, key == null ? -1 : key.length, partition, offset);
    }

    /** The same where the key lies in a larger array; its length is below 0 for none. */
    int of(byte[] bytes, int keyAt, int keyLength, int partition, long offset) {
        switch (rule) {
            case SOURCE_PARTITION:
                return partition % partitions;
            case ROUND_ROBIN:
                return (int) Math.floorMod(partition + offset, (long) partitions);
            case CLUSTER:
                return fixed;
            default:
                return keyLength < 0 ? chunk(partition, offset)
                                     : (murmur2(bytes, keyAt, keyLength) & 0x7fffffff) % partitions;
        }
    }

    /** Whether records of one key and one source partition go to several hub partitions. */
    boolean spreadsKeys() {
        return rule == Rule.ROUND_ROBIN;
    }

    /** As every Kafka client with the Java default partitioner; Utils.murmur2 of Kafka. */
    static int murmur2(byte[] bytes, int at, int length) {
        int hash = MURMUR_SEED ^ length;
        int words = length / 4;
        for (int i = 0; i < words; i++) {
            int word = (int) WORDS.get(bytes, at + 4 * i) * MURMUR;
            hash = hash * MURMUR ^ (word ^ word >>> 24) * MURMUR;
        }
        int rest = at + 4 * words;
        int left = length % 4;
        if (left == 3) {
            hash ^= (bytes[rest + 2] & 0xff) << 16;
        }
        if (left >= 2) {
            hash ^= (bytes[rest + 1] & 0xff) << 8;
        }
        if (left >= 1) {
            hash = (hash ^ bytes[rest] & 0xff) * MURMUR;
        }
        hash = (hash ^ hash >>> 13) * MURMUR;
        return hash ^ hash >>> 15;
    }

    private int chunk(int partition, long offset) {
        return (int) Math.floorMod(partition + offset / CHUNK, (long) partitions);
    }
}
