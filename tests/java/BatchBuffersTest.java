package aggregator.connector;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Random;
import org.junit.jupiter.api.Test;

class BatchBuffersTest {
    private static final int SIZE = 100_000;

    private final byte[] bytes = new byte[SIZE + 1];
    private final BatchBuffers buffers = new BatchBuffers(SIZE, 3 * SIZE - 1);

    BatchBuffersTest() {
        new Random(1).nextBytes(bytes);
    }

    @Test
    void aLargeBatchIsOutsideTheHeapAndItsMemoryIsUsedAgainOnceItIsGivenBack() {
        ByteBuffer first = copy(SIZE);
        ByteBuffer second = copy(20_000);
        assertTrue(first.isDirect() && second.isDirect());
        assertNotSame(first, second);
        // As one that was read up to somewhere.
        first.position(7);
        buffers.give(first);
        assertSame(first, copy(50_000));
    }

    @Test
    void aSmallOneIsAnArrayOfItsSizeAndSoIsOneThatIsTooLarge() {
        for (int length : new int[] {1, 16_383, SIZE + 1}) {
            ByteBuffer copy = copy(length);
            assertFalse(copy.isDirect());
            assertEquals(length, copy.array().length);
            buffers.give(copy);
        }
    }

    @Test
    void thereAreNoMoreThanFitIntoWhatTheyMayHaveTogether() {
        assertTrue(copy(SIZE).isDirect());
        ByteBuffer last = copy(SIZE);
        assertTrue(last.isDirect());
        assertFalse(copy(SIZE).isDirect());
        buffers.give(last);
        assertSame(last, copy(SIZE));
        assertFalse(copy(SIZE).isDirect());
    }

    private ByteBuffer copy(int length) {
        ByteBuffer copy = buffers.copy(bytes, length);
        byte[] found = new byte[copy.remaining()];
        copy.duplicate().get(found);
        assertArrayEquals(Arrays.copyOf(bytes, length), found);
        return copy;
    }
}
