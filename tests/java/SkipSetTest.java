package aggregator.connector;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import java.util.Set;
import org.junit.jupiter.api.Test;

class SkipSetTest {
    @Test
    void holdsWhatIsFromTheFirstOffsetOfARangeToTheOneBeforeItsEnd() {
        SkipSet set = set("[[3, 5], [9, 10]]");
        assertEquals(List.of(3L, 4L, 9L), held(set, 0, 12));
    }

    @Test
    void takesRangesInAnyOrder() {
        SkipSet set = set("[[20, 22], [1, 2], [10, 12]]");
        assertEquals(3, set.ranges());
        assertEquals(List.of(1L, 10L, 11L, 20L, 21L), held(set, 0, 30));
    }

    @Test
    void makesOneOfRangesThatTouch() {
        SkipSet set = set("[[5, 7], [3, 5], [7, 8]]");
        assertEquals(1, set.ranges());
        assertEquals(List.of(3L, 4L, 5L, 6L, 7L), held(set, 0, 12));
    }

    @Test
    void keepsRangesApartThatHaveAnOffsetInBetween() {
        SkipSet set = set("[[3, 5], [6, 8]]");
        assertEquals(2, set.ranges());
        assertFalse(set.contains(5));
    }

    @Test
    void makesOneOfRangesThatOverlapOrLieInEachOther() {
        SkipSet set = set("[[1, 10], [2, 4], [8, 12], [1, 3]]");
        assertEquals(1, set.ranges());
        assertEquals(12, set.top());
        assertEquals(11, held(set, 0, 20).size());
    }

    @Test
    void leavesOutRangesWithoutAnOffset() {
        SkipSet set = set("[[4, 4], [7, 9], [8, 8], [20, 20]]");
        assertEquals(1, set.ranges());
        assertEquals(9, set.top());
        assertEquals(List.of(7L, 8L), held(set, 0, 30));
    }

    @Test
    void holdsNothingWhenThereAreNoRanges() {
        for (SkipSet set : List.of(set("[]"), SkipSet.of(Json.parse("{}").path("skip")))) {
            assertEquals(0, set.ranges());
            assertEquals(0, set.top());
            assertEquals(List.of(), held(set, 0, 10));
        }
    }

    @Test
    void topIsTheOffsetBehindTheLastRange() {
        assertEquals(22, set("[[20, 22], [1, 2]]").top());
    }

    @Test
    void answersTheSameWhenItIsAskedAgainFromTheStart() {
        SkipSet set = set("[[3, 5], [9, 10], [12, 20]]");
        List<Long> first = held(set, 0, 30);
        assertEquals(List.of(3L, 4L, 9L, 12L), first.subList(0, 4));
        assertEquals(first, held(set, 0, 30));
        // From behind the last range, from within one, and from a gap before the one last found.
        assertTrue(set.contains(19));
        assertTrue(set.contains(9));
        assertFalse(set.contains(8));
        assertTrue(set.contains(3));
        assertFalse(set.contains(20));
        assertTrue(set.contains(4));
    }

    @Test
    void answersAsASetOfTenThousandRangesInAnyOrderOfQuestions() {
        Random random = new Random(11);
        Set<Long> model = new HashSet<>();
        List<long[]> ranges = new ArrayList<>();
        for (int i = 0; i < 10_000; i++) {
            long from = random.nextInt(200_000);
            long to = from + random.nextInt(12);
            ranges.add(new long[] {from, to});
            for (long offset = from; offset < to; offset++) {
                model.add(offset);
            }
        }
        SkipSet set = SkipSet.of(ranges);
        assertTrue(set.ranges() > 1_000);
        for (int i = 0; i < 20_000; i++) {
            long asked = random.nextInt(200_100);
            assertEquals(model.contains(asked), set.contains(asked), "offset " + asked);
        }
        int held = 0;
        for (long offset = 0; offset < 200_100; offset++) {
            assertEquals(model.contains(offset), set.contains(offset), "offset " + offset);
            held += set.contains(offset) ? 1 : 0;
        }
        assertEquals(model.size(), held);
    }

    @Test
    void keysOfOtherBytesDifferAndKeysOfTheSameBytesAreEqual() {
        Set<String> keys = new HashSet<>();
        for (int each = 0; each < 256; each++) {
            keys.add(SkipSet.key(new byte[] {(byte) each}));
        }
        assertEquals(256, keys.size());
        byte[] bytes = "é".getBytes(StandardCharsets.UTF_8);
        assertEquals(SkipSet.key(bytes), SkipSet.key(bytes.clone()));
        assertNotEquals(SkipSet.key(new byte[] {}), SkipSet.key(new byte[] {0}));
    }

    private static SkipSet set(String ranges) {
        return SkipSet.of(Json.parse(ranges));
    }

    private static List<Long> held(SkipSet set, long from, long to) {
        List<Long> found = new ArrayList<>();
        for (long offset = from; offset < to; offset++) {
            if (set.contains(offset)) {
                found.add(offset);
            }
        }
        return found;
    }
}
