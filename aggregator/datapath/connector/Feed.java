package aggregator.connector;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;

/**
 * The source side of a task: the records of all its partitions in order, each once, and the state
 * of each partition.
 *
 * <p>What goes wrong with a source is a value: a partition whose position its log does not hold is
 * out of range, one whose next record cannot be read is damaged, one that may not be read is
 * refused, and any other failure is the cluster's ({@link SourceConsumer}); the others continue.
 * Only an interrupt is thrown. Used by the task's thread alone; {@link #reasons}, {@link #cuts} and
 * {@link #error} may be read by any.
 */
final class Feed implements SourceConsumer.Reading {
    enum State {
        READING,
        /** Left out by a command. */
        HELD,
        /** Read up to where it was to be read. */
        DONE,
        OUT_OF_RANGE,
        /** Its next record cannot be read. */
        DAMAGED,
        REFUSED,
        /** Its next record is one that the hub refuses, and nothing says where else it is to go. */
        POISONED,
        /** Its next record waits for something that the driver was asked for. */
        AWAITING,
        /** The hub took nothing of it, and what has arrived is not known. */
        STUCK
    }

    /** Where a poll gives this many bytes, others are likely to be there. */
    private static final long MUCH_BYTES = 200_000;

    private final TaskSpec spec;
    private final Map<TopicPartition, Integer> index = new HashMap<>();
    private final Map<String, Integer> indexes = new HashMap<>();
    private final TopicPartition[] names;
    final long[] positions;
    final State[] states;
    final String[] reasons;
    /** From where on the log of one that is out of range is another one, by its epochs; or -1. */
    final long[] cuts;
    /** The leader epochs of the records that were read last. */
    private final List<Optional<Integer>> epochs;
    private Fetched fetched = new Fetched.Objects();
    private Passing passing = (of, batch, from) -> false;
    /** Of the record that comes next. */
    private TopicPartition bufferedName;
    private int bufferedPart = -1;
    private boolean changed = true;
    final SourceConsumer source;

    /**
     * Which partition of the spec the record that was read last is of, and since when it is here.
     */
    int part = -1;
    private boolean isHandedOut;
    private ConsumerRecord<byte[], byte[]> record;
    long polledAtMs;
    /** Records that were left out because the hub holds them. */
    long skipped;
    /** Records that were left out with their batches, as these have an origin. */
    long looped;
    /** Bytes of keys and values that were read, of what was left out as well. */
    long bytes;
    private long bytesAtPoll;
    /** Whose position is followed first: it is behind one that was not certain. */
    private int followFrom;

    Feed(TaskSpec spec, long[] positions, SourceConsumer.Consumers consumers) {
        this.spec = spec;
        source = new SourceConsumer(spec, consumers, this);
        this.positions = positions.clone();
        names = new TopicPartition[spec.parts.size()];
        states = new State[names.length];
        reasons = new String[names.length];
        cuts = new long[names.length];
        Arrays.fill(cuts, -1);
        epochs = new ArrayList<>(Collections.nCopies(names.length, Optional.empty()));
        for (int i = 0; i < names.length; i++) {
            TaskSpec.Part each = spec.parts.get(i);
            names[i] = new TopicPartition(each.topic, each.partition);
            index.put(names[i], i);
            indexes.put(names[i].toString(), i);
            states[i] = positions[i] >= each.until ? State.DONE : State.READING;
        }
    }

    /**
     * Advances to the next record that is wanted. False when none has come within `nanos`, or when
     * the caller should look at its clocks. The record before it counts as done from here on.
     */
    boolean next(long nanos) {
        passed();
        if (!more() && !poll(nanos)) {
            return false;
        }
        while (more()) {
            int at = bufferedPart;
            fetched.next();
            TaskSpec.Part own = spec.parts.get(at);
            if (states[at] != State.READING) {
                continue;
            }
            long offset = fetched.offset();
            if (offset >= own.until) {
                finish(at);
                continue;
            }
            bytes += fetched.size();
            if (fetched.isForeign()) {
                leaveOut(at);
            } else if (own.skip.contains(offset)) {
                Failpoint.pass("task-skip");
                pass(at);
                skipped++;
            } else {
                isHandedOut = true;
                part = at;
                return true;
            }
        }
        return false;
    }

    /**
     * Whether records are at hand, so that the next one needs no waiting. What was handed out has
     * to be dealt with before.
     */
    boolean more() {
        while (true) {
            try {
                if (!fetched.more()) {
                    return false;
                }
                TopicPartition name = fetched.partition();
                if (name != bufferedName) {
                    bufferedName = name;
                    bufferedPart = index.get(name);
                }
                return true;
            } catch (KafkaException failure) {
                long at = fetched.damagedAt();
                Integer of = index.get(fetched.partition());
                // Else nothing of it is read in any case.
                if (states[of] == State.READING) {
                    positions[of] = Math.max(positions[of], at);
                    exclude(
                        List.of(names[of]),
                        State.DAMAGED,
                        Damage.reason(failure, names[of], positions[of]));
                }
            }
        }
    }

    /**
     * As `more`, and while much is read, also after a look at what has come meanwhile. It waits for
     * nothing.
     */
    boolean moreNow() {
        return more() || bytes - bytesAtPoll > MUCH_BYTES && poll(0);
    }

    /** The offset of the record that was read last; below 0 when it is dealt with. */
    long offset() {
        return isHandedOut ? fetched.offset() : -1;
    }

    long timestamp() {
        return fetched.timestamp();
    }

    /** The record that was read last as an object; null when it is dealt with. */
    ConsumerRecord<byte[], byte[]> record() {
        if (record == null && isHandedOut) {
            record = fetched.record();
        }
        return record;
    }

    /** Where the record that was read last lies in its batch; null where records are objects. */
    BatchCursor cursor() {
        return fetched.cursor();
    }

    /** The batch that was read last and goes as it is; null for a record. */
    BatchHead whole() {
        return isHandedOut ? fetched.whole() : null;
    }

    /** The batch of what was read last; null where that cannot be seen. */
    BatchHead batch() {
        return fetched.batch();
    }

    /** From now on batches that this rule takes are handed out whole. */
    void pass(Passing rule) {
        passing = rule;
        fetched.pass(rule);
    }

    /** The number of a partition in the spec. */
    int partOf(TopicPartition name) {
        return index.get(name);
    }

    /** Makes a `next` that waits return soon; the one call that another thread may do. */
    void wake() {
        source.wake();
    }

    /** The record that was handed out is dealt with: its position moves on. */
    void passed() {
        if (isHandedOut) {
            pass(part);
            release();
        }
    }

    private void pass(int at) {
        positions[at] = fetched.last() + 1;
        epochs.set(at, fetched.leaderEpoch());
    }

    /** Leaves out a whole batch, up to where its partition is read. */
    private void leaveOut(int at) {
        long from = Math.max(positions[at], fetched.offset());
        pass(at);
        positions[at] = Math.min(positions[at], spec.parts.get(at).until);
        looped += Math.min(fetched.batch().count(), positions[at] - from);
    }

    private void release() {
        isHandedOut = false;
        record = null;
    }

    /** Behind the last record there may be markers that are no records: positions pass them. */
    void followPositions() {
        if (!source.isOpen() || changed || isHandedOut || more()) {
            return;
        }
        for (int n = 0; n < positions.length; n++) {
            int i = (followFrom + n) % positions.length;
            if (states[i] != State.READING) {
                continue;
            }
            long at = source.passed(names[i]);
            if (at < 0) {
                // The client polls for it: one at a time, and the others come first next time.
                followFrom = i + 1;
                return;
            }
            long passed = Math.min(at, spec.parts.get(i).until);
            if (passed > positions[i]) {
                positions[i] = passed;
                // What was passed may be of a later one than the last record.
                epochs.set(i, Optional.empty());
            }
            if (positions[i] >= spec.parts.get(i).until) {
                finish(i);
            }
        }
    }

    /**
     * Notes what the answers to fetches say of the logs. Nothing where they are not `asked` for all
     * the time, as of a reader that waits for its limit. While it is `idle` a fetch may wait
     * longer.
     */
    void look(boolean asked, boolean idle, long now) {
        if (changed) {
            return;
        }
        BitSet read = new BitSet();
        for (int i = 0; asked && i < states.length; i++) {
            read.set(i, states[i] == State.READING);
        }
        // What is left out now may be read again soon, and a fetch that waits holds it up.
        source.look(read, idle && read.cardinality() == states.length, now);
    }

    /** Leaves out exactly the partitions with these names, and resumes those that were. */
    void hold(Set<String> held) {
        passed();
        for (int i = 0; i < states.length; i++) {
            boolean hold = held.contains(spec.parts.get(i).name());
            // Not one that is refused either: it would be tried again, and read.
            if (hold && isWanted(i)) {
                states[i] = State.HELD;
                reasons[i] = null;
                forget();
            } else if (!hold && states[i] == State.HELD) {
                states[i] = State.READING;
                forget();
            }
        }
    }

    /** Resumes the partitions that have waited. */
    void resume() {
        for (int i = 0; i < states.length; i++) {
            if (states[i] == State.AWAITING) {
                states[i] = State.READING;
                reasons[i] = null;
                passed();
                forget();
            }
        }
    }

    /** Stops before the record that was handed out: it is not dealt with, nor is what follows. */
    void stop(State state, String why) {
        states[part] = state;
        reasons[part] = why;
        release();
        changed = true;
    }

    /** Reads no more of these partitions, whose last records are lost. */
    void giveUp(BitSet parts, String why) {
        parts.stream().forEach(at -> {
            states[at] = State.STUCK;
            reasons[at] = why;
        });
        forget();
    }

    /** How many partitions it was made to give up. By any thread. */
    long stuck() {
        return Arrays.stream(states).filter(it -> it == State.STUCK).count();
    }

    /** Why the cluster gives nothing, "" when it does. */
    String error() {
        return source.error();
    }

    void close() {
        lost();
        source.close();
    }

    @Override
    public void lost() {
        forget();
        release();
    }

    /** Whether it is read, or would be as soon as it can. */
    private boolean isWanted(int at) {
        return switch (states[at]) {
            case READING, REFUSED, AWAITING -> true;
            default -> false;
        };
    }

    private boolean poll(long nanos) {
        bytesAtPoll = bytes;
        return source.poll(nanos);
    }

    @Override
    public void opened(Fetched reader) {
        fetched = reader;
        fetched.pass(passing);
        changed = true;
    }

    @Override
    public boolean take(ConsumerRecords<byte[], byte[]> polled) {
        fetched.add(polled);
        polledAtMs = DriverClock.now();
        return more();
    }

    @Override
    public void outOfRange(Set<TopicPartition> of, Map<TopicPartition, Long> from, String why) {
        // First: a thread that sees the states looks at these.
        from.forEach((name, at) -> cuts[index.get(name)] = at);
        exclude(of, State.OUT_OF_RANGE, why);
    }

    @Override
    public void refused(Set<String> topics, String why) {
        List<TopicPartition> of = new ArrayList<>(index.keySet());
        of.removeIf(name -> !topics.contains(name.topic()));
        exclude(of, State.REFUSED, why);
    }

    @Override
    public boolean damaged(RuntimeException failure) {
        int at = Damage.of(failure, indexes);
        if (at < 0 || states[at] != State.READING) {
            return false;
        }
        // Behind the last record there may have been markers.
        positions[at] = Math.max(positions[at], source.readsAt(names[at]));
        exclude(
            List.of(names[at]), State.DAMAGED, Damage.reason(failure, names[at], positions[at]));
        return true;
    }

    @Override
    public void assign(Consumer<byte[], byte[]> consumer) {
        if (!changed) {
            return;
        }
        List<TopicPartition> wanted = new ArrayList<>();
        for (int i = 0; i < names.length; i++) {
            if (states[i] == State.READING) {
                wanted.add(names[i]);
            }
        }
        Set<TopicPartition> before = Set.copyOf(consumer.assignment());
        consumer.assign(wanted);
        for (TopicPartition name : wanted) {
            int at = index.get(name);
            // What is there already keeps what was fetched of it.
            if (!before.contains(name) || source.readsAt(name) != positions[at]) {
                // With the epoch a log that was cut off shows, however long it is by now.
                consumer.seek(name, new OffsetAndMetadata(positions[at], epochs.get(at), ""));
            }
        }
        changed = false;
    }

    private void exclude(Iterable<TopicPartition> of, State why, String what) {
        for (TopicPartition name : of) {
            Integer at = index.get(name);
            if (at != null && states[at] == State.READING) {
                states[at] = why;
                reasons[at] = what;
            }
        }
        changed = true;
    }

    private void finish(int at) {
        positions[at] = Math.max(positions[at], spec.parts.get(at).until);
        states[at] = State.DONE;
        changed = true;
    }

    @Override
    public void readmit() {
        for (int i = 0; i < states.length; i++) {
            if (states[i] == State.REFUSED) {
                states[i] = State.READING;
                reasons[i] = null;
            }
        }
        changed = true;
    }

    /** What was fetched and not handed out is fetched again, from the positions on. */
    private void forget() {
        fetched.clear();
        changed = true;
    }
}
