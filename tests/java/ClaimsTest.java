package aggregator.connector;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import aggregator.connector.Claims.Claim;
import aggregator.connector.Claims.Event;
import aggregator.connector.Claims.Owner;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.Test;

class ClaimsTest {
    private static final long NOW = 1_800_000_000_000L;
    private static final long WINDOW = 60_000;
    private static final OriginReader.Place EU = new OriginReader.Place("eu", "orders", 0);
    private static final OriginReader.Place US = new OriginReader.Place("us", "orders", 0);

    private final Claims claims = new Claims(new EventRule("key", WINDOW));
    private final Owner here = new Owner();
    private final Owner gone = new Owner();
    private final EventHash hash = new EventHash();

    private Event event(String id) {
        return hash.of(id.getBytes(StandardCharsets.UTF_8));
    }

    private Claim claim(String id, OriginReader.Place place, long offset, Owner owner) {
        return new Claim(event(id), place, offset, owner);
    }

    private Claim sent(String id, OriginReader.Place place, long offset, Owner owner) {
        Claim claim = claim(id, place, offset, owner);
        assertSame(claim, claims.take(claim, NOW));
        return claim;
    }

    @Test
    void whoClaimsAnEventFirstSendsItAndTheOthersWaitUntilTheHubHasIt() {
        Claim first = sent("a", EU, 5, here);
        Claim other = claim("a", US, 7, here);
        assertSame(first, claims.take(other, NOW));
        claims.arrived(first, 0, 1, NOW);
        assertNull(claims.take(other, NOW));
        assertNull(claims.take(claim("a", EU, 5, here), NOW));
    }

    @Test
    void anEventIsForgottenWhenItsWindowIsOver() {
        claims.arrived(sent("a", EU, 5, here), 0, 1, NOW);
        assertNull(claims.take(claim("a", US, 7, here), NOW + WINDOW));
        Claim later = claim("a", US, 8, here);
        assertSame(later, claims.take(later, NOW + WINDOW + 2_000));
    }

    @Test
    void whatATaskThatIsGoneHasSentIsUncertainUntilItIsSentAgainOrLookedFor() {
        Claim first = sent("a", EU, 5, gone);
        assertSame(first, claims.take(claim("a", EU, 5, here), NOW));
        gone.gone(100);
        assertSame(first, claims.take(claim("a", US, 7, here), NOW));
        assertSame(first, claims.take(claim("a", EU, 6, here), NOW));
        // A recovery lets a record be sent again only if the hub does not have it.
        Claim again = claim("a", EU, 5, here);
        assertSame(again, claims.take(again, NOW));
        assertEquals(0, claims.uncertain(1_000));
    }

    @Test
    void whatTheHubHeldInAnEarlierLifeIsForgottenAndWhatIsOnItsWayStaysClaimed() {
        claims.begin(new long[] {5});
        claims.arrived(sent("a", EU, 5, here), 0, 6, NOW);
        Claim underWay = sent("b", EU, 6, here);
        claims.fresh();
        claims.forget();
        assertFalse(claims.isReady());
        assertEquals(0, claims.fresh().length);
        claims.begin(new long[] {0});
        claims.kept();
        assertArrayEquals(new long[] {0}, claims.covered());
        assertSame(underWay, claims.take(claim("b", US, 7, here), NOW));
        sent("a", EU, 5, here);
    }

    @Test
    void whatTheHubWasSeenToHaveIsHeldAndWhatNotIsLetGo() {
        sent("there", EU, 5, gone);
        sent("not", EU, 6, gone);
        Claim underWay = sent("living", EU, 7, here);
        gone.gone(100);
        assertEquals(0, claims.uncertain(100));
        assertEquals(2, claims.uncertain(101));
        claims.found(event("there"), NOW, NOW);
        claims.found(event("living"), NOW, NOW);
        assertEquals(0, claims.release(100));
        assertEquals(1, claims.release(101));
        assertNull(claims.take(claim("there", US, 1, here), NOW));
        assertSame(underWay, claims.take(claim("living", US, 2, here), NOW));
        sent("not", US, 3, here);
    }

    @Test
    void whoWaitsGoesOnAsSoonAsTheHubHasIt() throws Exception {
        Claim first = sent("a", EU, 5, here);
        Thread hub = new Thread(() -> claims.arrived(first, 0, 1, NOW));
        long began = System.nanoTime();
        hub.start();
        claims.await(first, 60_000);
        hub.join();
        assertTrue(System.nanoTime() - began < 30_000_000_000L);
        assertNull(claims.take(claim("a", US, 7, here), NOW));
    }

    @Test
    void endsAreCoveredWhenAllThatWasClaimedBeforeThemIsDecided() {
        claims.begin(new long[] {10, 20});
        assertArrayEquals(new long[] {10, 20}, claims.covered());
        Claim slow = sent("slow", EU, 1, here);
        claims.arrived(sent("quick", EU, 2, here), 1, 25, NOW);
        assertArrayEquals(new long[] {10, 20}, claims.covered());
        assertArrayEquals(new long[] {10, 20}, claims.covered());
        // At 24 there may be the slow one: no end beyond it is covered before it is decided.
        claims.arrived(slow, 1, 24, NOW);
        claims.covered();
        assertArrayEquals(new long[] {10, 25}, claims.covered());
    }

    @Test
    void freshEventsAreToldUntilTheyAreKeptAndALaterLifeTakesThem() {
        claims.arrived(sent("a", EU, 1, here), 0, 1, NOW);
        byte[] first = claims.fresh();
        assertEquals(Claims.ROW_BYTES, first.length);
        claims.arrived(sent("b", EU, 2, here), 0, 2, NOW + 1_000);
        byte[] both = claims.fresh();
        assertEquals(2 * Claims.ROW_BYTES, both.length);
        claims.arrived(sent("c", EU, 3, here), 0, 3, NOW);
        claims.kept();
        assertEquals(Claims.ROW_BYTES, claims.fresh().length);
        Claims later = new Claims(claims.rule);
        later.load(both, NOW);
        assertNull(later.take(claim("a", US, 1, here), NOW));
        assertNull(later.take(claim("b", US, 1, here), NOW));
        Claim other = claim("c", US, 1, here);
        assertSame(other, later.take(other, NOW));
    }

    @Test
    void aTableOfEventsIsAMapThatForgets() {
        HeldEvents held = new HeldEvents();
        Map<Long, Integer> known = new HashMap<>();
        Random chance = new Random(3);
        for (int second = 1; second < 60_000; second++) {
            long id = chance.nextInt(20_000);
            int oldest = Math.max(1, second - 5_000);
            Integer since = known.get(id);
            boolean isHeld = since != null && since >= oldest;
            assertEquals(isHeld, held.contains(id << 40, id, oldest));
            assertEquals(!isHeld, held.add(id << 40, id, second, oldest));
            if (!isHeld) {
                known.put(id, second);
            }
        }
        assertTrue(held.size() < 20_001, "slots of what expired are used again");
        assertTrue(held.slots() < 40_000);
        assertFalse(held.contains(-1, -1, 1));
    }
}
