package aggregator.connector;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.charset.StandardCharsets;
import java.util.Random;
import org.junit.jupiter.api.Test;

class DecimalTest {
    private final Decimal decimal = new Decimal();

    private void is(long number) {
        decimal.set(number);
        String text = new String(decimal.text, 0, decimal.length, StandardCharsets.ISO_8859_1);
        assertEquals(Long.toString(number), text);
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
