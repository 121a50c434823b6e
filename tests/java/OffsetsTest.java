package aggregator.connector;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.TreeSet;
import org.junit.jupiter.api.Test;

class OffsetsTest {
    private static final int WORD = 64;
    private static final int CHUNK = 65_536;

    @Test
    void holdsNothingAtFirst() {
        Offsets offsets = new Offsets();
        assertEquals(0, offsets.count());
        assertEquals(List.of(), ranges(offsets));
    }

    @Test
    void aRangeGoesOnAcrossTheBoundsOfWordsAndChunks() {
        for (long bound : new long[] {WORD, 2 * WORD, CHUNK, 3L * CHUNK, 1L << 40}) {
            Offsets offsets = new Offsets();
            for (long offset = bound - 3; offset < bound + 2; offset++) {
                offsets.add(offset);
            }
            assertEquals(List.of(List.of(bound - 3, bound + 2)), ranges(offsets));
        }
    }

    @Test
    void aRangeThatEndsAtABoundIsApartFromOneThatBeginsBehindIt() {
        for (long bound : new long[] {WORD, CHUNK}) {
            Offsets offsets = new Offsets();
            offsets.add(bound - 1);
            offsets.add(bound + 1);
            assertEquals(
                List.of(List.of(bound - 1, bound), List.of(bound + 1, bound + 2)), ranges(offsets));
        }
    }

    @Test
    void wholeWordsAndChunksAreOneRange() {
        Offsets offsets = new Offsets();
        for (long offset = 0; offset < 2L * CHUNK + WORD; offset++) {
            offsets.add(offset);
        }
        assertEquals(List.of(List.of(0L, 2L * CHUNK + WORD)), ranges(offsets));
    }

    @Test
    void everyOtherOffsetIsARangeOfItsOwn() {
        Offsets offsets = new Offsets();
        List<List<Long>> expected = new ArrayList<>();
        for (long offset = 1; offset < 3 * WORD; offset += 2) {
            offsets.add(offset);
            expected.add(List.of(offset, offset + 1));
        }
        assertEquals(expected, ranges(offsets));
    }

    @Test
    void countsAnOffsetOnceHoweverOftenItComes() {
        Offsets offsets = new Offsets();
        // In turn from two chunks, so that each one is looked up again.
        for (int time = 0; time < 3; time++) {
            offsets.add(5);
            offsets.add(CHUNK + 5);
        }
        assertEquals(2, offsets.count());
        assertEquals(List.of(List.of(5L, 6L), List.of(CHUNK + 5L, CHUNK + 6L)), ranges(offsets));
    }

    @Test
    void holdsTheSameAsASetWhateverComesAndInWhatOrder() {
        for (int seed = 0; seed < 20; seed++) {
            Random random = new Random(seed);
            Offsets offsets = new Offsets();
            TreeSet<Long> model = new TreeSet<>();
            for (int i = 0; i < 400; i++) {
                // Runs that begin near bounds, some on top of others.
                long near = (long) random.nextInt(6) * CHUNK + (long) random.nextInt(4) * WORD;
                long from = Math.max(0, near + random.nextInt(80) - 40);
                int length = random.nextInt(10) == 0 ? random.nextInt(300) : random.nextInt(4);
                for (long offset = from + length; offset >= from; offset--) {
                    offsets.add(offset);
                    model.add(offset);
                }
            }
            assertEquals(model.size(), offsets.count(), "seed " + seed);
            assertEquals(ranges(model), ranges(offsets), "seed " + seed);
        }
    }

    private static List<List<Long>> ranges(Offsets offsets) {
        List<List<Long>> found = new ArrayList<>();
        offsets.ranges().forEach(range -> found.add(List.of(range[0], range[1])));
        return found;
    }

    private static List<List<Long>> ranges(TreeSet<Long> offsets) {
        List<List<Long>> found = new ArrayList<>();
        long from = -1;
        for (long offset : offsets) {
            if (from < 0) {
                from = offset;
            }
            if (!offsets.contains(offset + 1)) {
                found.add(List.of(from, offset + 1));
                from = -1;
            }
        }
        return found;
    }
}
