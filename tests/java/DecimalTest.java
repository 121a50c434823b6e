package aggregator.connector;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.charset.StandardCharsets;
import java.util.Random;
import org.junit.jupiter.api.Test;

class DecimalTest {
    private final byte[] bytes = new byte[2 * Decimal.MOST];
    private final Decimal decimal = new Decimal(bytes, 0);
    private int at;

    private void is(long number) {
        int before = decimal.length;
        boolean isAsLong = decimal.set(number);
        assertEquals(decimal.length == before, isAsLong);
        assertEquals(Long.toString(number), text());
    }

    private String text() {
        return new String(bytes, at, decimal.length, StandardCharsets.ISO_8859_1);
    }

    @Test
    void theTextMovesToAnotherPlace() {
        is(99);
        at = Decimal.MOST;
        decimal.moveTo(at);
        assertEquals("99", text());
        is(100);
        is(101);
        bytes[0] = 'x';
        is(102);
        assertEquals('x', bytes[0]);
    }

    @Test
    void numbersThatFollowOneAnotherAndThoseThatDoNot() {
        for (long number = 0; number < 20_000; number++) {
            is(number);
        }
        for (long number : new long[] {
                 0,
                 -1,
                 Long.MIN_VALUE,
                 Long.MAX_VALUE,
                 Long.MAX_VALUE,
                 9,
                 10,
                 99,
                 100,
                 9_999,
                 19_998}) {
            is(number);
        }
    }

    @Test
    void anyStep() {
        Random random = new Random(5);
        long number = 0;
        for (int i = 0; i < 100_000; i++) {
            int bits = random.nextInt(64);
            number = random.nextInt(20) == 0 ? random.nextLong() >> bits
                                             : number + random.nextInt(12_000) - 100;
            is(number);
        }
    }
}
