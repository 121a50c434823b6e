package aggregator.connector;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

class BucketTest {
    private static final long SECOND = 1_000_000_000L;
    /** Any moment will do: System.nanoTime() may be below 0. */
    private static final long START = -5 * SECOND;

    @Test
    void withoutALimitNothingWaits() {
        Bucket bucket = new Bucket(START);
        bucket.take(1e12);
        assertFalse(bucket.limited());
        assertEquals(0, bucket.waitNanos(START));
    }

    @Test
    void aLimitBeginsEmpty() {
        Bucket bucket = limited(100);
        assertTrue(bucket.limited());
        assertEquals(0, bucket.waitNanos(START));
        bucket.take(1);
        assertEquals(SECOND / 100, bucket.waitNanos(START));
    }

    @Test
    void whatWentThroughBeforeALimitIsNotWaitedFor() {
        Bucket bucket = new Bucket(START);
        bucket.take(1_000_000);
        bucket.limit(100, START + SECOND);
        assertEquals(0, bucket.waitNanos(START + SECOND));
    }

    @Test
    void aTimeWithoutALimitGathersNothing() {
        Bucket bucket = new Bucket(START);
        bucket.limit(100, START + 10 * SECOND);
        bucket.take(1);
        assertEquals(SECOND / 100, bucket.waitNanos(START + 10 * SECOND));
    }

    @Test
    void aWaitIsOverWhenTheTimeHasPassedAndNotBefore() {
        Bucket bucket = limited(10);
        bucket.take(5);
        long wait = bucket.waitNanos(START);
        assertEquals(SECOND / 2, wait);
        assertEquals(1, bucket.waitNanos(START + wait - 1));
        assertEquals(0, bucket.waitNanos(START + wait));
        assertEquals(0, bucket.waitNanos(START + wait + SECOND / 20), "half a record is there");
    }

    @Test
    void holdsAQuarterOfASecondAfterAPauseOfAnyLength() {
        Bucket bucket = limited(100);
        long later = START + 3600 * SECOND;
        assertEquals(0, bucket.waitNanos(later));
        bucket.take(25);
        assertEquals(0, bucket.waitNanos(later));
        bucket.take(1);
        assertEquals(SECOND / 100, bucket.waitNanos(later));
    }

    @Test
    void aRecordLargerThanTheBucketPassesAndIsWaitedForAfterwards() {
        Bucket bucket = limited(100);
        long later = START + SECOND;
        assertEquals(0, bucket.waitNanos(later));
        bucket.take(1025);
        assertEquals(10 * SECOND, bucket.waitNanos(later));
        assertEquals(0, bucket.waitNanos(later + 10 * SECOND));
    }

    @Test
    void inTheLongRunAsMuchPassesAsTheLimitSays() {
        Bucket bucket = limited(1000);
        long now = START;
        long taken = 0;
        while (now < START + 60 * SECOND) {
            long wait = bucket.waitNanos(now);
            if (wait > 0) {
                now += wait;
            } else {
                bucket.take(7);
                taken += 7;
            }
        }
        assertEquals(60_000, taken, 8);
    }

    @Test
    void anotherLimitCountsFromTheMomentItIsSet() {
        Bucket bucket = limited(100);
        bucket.take(200);
        // One second has paid half of it; the other half is paid at the new limit.
        bucket.limit(10, START + SECOND);
        assertEquals(10 * SECOND, bucket.waitNanos(START + SECOND));
        assertEquals(0, bucket.waitNanos(START + 11 * SECOND));
    }

    @Test
    void aLowerLimitKeepsNoMoreThanItsOwnDepth() {
        Bucket bucket = limited(1000);
        bucket.limit(100, START + SECOND);
        bucket.take(25);
        assertEquals(0, bucket.waitNanos(START + SECOND));
        bucket.take(1);
        assertEquals(SECOND / 100, bucket.waitNanos(START + SECOND));
    }

    @Test
    void theSameLimitAgainChangesNothing() {
        Bucket bucket = limited(10);
        bucket.take(10);
        bucket.limit(10, START);
        assertEquals(SECOND, bucket.waitNanos(START));
    }

    @Test
    void aLimitThatIsTakenAwayEndsTheWaitAndTheNextOneBeginsEmpty() {
        Bucket bucket = limited(10);
        bucket.take(1000);
        bucket.limit(Double.POSITIVE_INFINITY, START);
        assertFalse(bucket.limited());
        assertEquals(0, bucket.waitNanos(START));
        bucket.limit(10, START + SECOND);
        assertEquals(0, bucket.waitNanos(START + SECOND));
        bucket.take(1);
        assertEquals(SECOND / 10, bucket.waitNanos(START + SECOND));
    }

    private static Bucket limited(double perSecond) {
        Bucket bucket = new Bucket(START);
        bucket.limit(perSecond, START);
        return bucket;
    }
}
