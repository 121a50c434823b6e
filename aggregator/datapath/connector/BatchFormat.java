package aggregator.connector;

/** Where the parts of a batch of Kafka's record format 2 (KIP-98) are, in bytes from its start. */
public final class BatchFormat {
    public static final int LENGTH_AT = 8;
    /** What the length does not count: the base offset and itself. */
    public static final int LENGTH_OVERHEAD = 12;
    public static final int LEADER_EPOCH_AT = 12;
    public static final int MAGIC_AT = 16;
    public static final int CHECKSUM_AT = 17;
    public static final int ATTRIBUTES_AT = 21;
    /** The checksum is of all from here on. */
    public static final int CHECKED_FROM = ATTRIBUTES_AT;
    public static final int LAST_DELTA_AT = 23;
    public static final int BASE_TIMESTAMP_AT = 27;
    public static final int MAX_TIMESTAMP_AT = 35;
    public static final int PRODUCER_ID_AT = 43;
    public static final int PRODUCER_EPOCH_AT = 51;
    public static final int SEQUENCE_AT = 53;
    public static final int COUNT_AT = 57;
    public static final int RECORDS_AT = 61;

    private BatchFormat() {}
}
