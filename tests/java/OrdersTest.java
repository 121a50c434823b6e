package aggregator.connector;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Set;
import org.junit.jupiter.api.Test;

class OrdersTest {
    private static final double NO_LIMIT = Double.POSITIVE_INFINITY;
    /** Task 1 of reading 1, of cluster "eu". */
    private final TaskSpec task = Specs.task("'topic': 'orders', 'partition': 0, 'position': 0");

    @Test
    void noTextIsNoOrders() {
        assertSame(Orders.NONE, Orders.of(""));
        assertNothingIsOrdered(Orders.NONE);
    }

    @Test
    void whatIsNotThereIsNotOrdered() {
        assertNothingIsOrdered(Orders.of("{}"));
        assertNothingIsOrdered(Orders.of("{\"end\": false, \"held\": {}, \"rates\": {}}"));
    }

    @Test
    void aRateOfNullIsNoLimit() {
        TaskSpec other = Specs.task(0, 1);
        Orders orders = Orders.of("{\"rates\":{\"0-1\":[10,null],\"1-1\":[null,2.5]}}");
        assertEquals(10, orders.records(other));
        assertEquals(NO_LIMIT, orders.bytes(other));
        assertEquals(NO_LIMIT, orders.records(task));
        assertEquals(2.5, orders.bytes(task));
    }

    @Test
    void ratesAreThoseOfTheTaskOfItsReadingAlone() {
        Orders orders = Orders.of("{\"rates\":{\"1-0\":[1,2],\"0-1\":[3,4],\"11-1\":[5,6]}}");
        assertEquals(NO_LIMIT, orders.records(task));
        assertEquals(NO_LIMIT, orders.bytes(task));
        assertEquals(1, orders.records(Specs.task(1, 0)));
        assertEquals(4, orders.bytes(Specs.task(0, 1)));
    }

    @Test
    void heldAreThePartitionsOfTheTasksOwnCluster() {
        Orders orders =
            Orders.of("{\"held\": {\"eu\": [\"orders/0\", \"orders/1\"], \"us\": [\"orders/2\"]}}");
        assertEquals(Set.of("orders/0", "orders/1"), orders.held(task));
        assertEquals(Set.of("orders/2"), orders.held(Specs.task(0, 0)));
        assertEquals(Set.of(), Orders.of("{\"held\": {\"us\": [\"orders/2\"]}}").held(task));
    }

    @Test
    void heldNamesAreThoseThatAPartitionHas() {
        Orders orders = Orders.of("{\"held\": {\"eu\": [\"orders/0\"]}}");
        assertTrue(orders.held(task).contains(task.parts.get(0).name()));
    }

    @Test
    void schemaIdsAreThoseOfTheTasksOwnCluster() {
        Orders orders =
            Orders.of("{\"schemas\": {\"eu\": {\"orders\": {\"key\": {\"1\": {\"id\": 7}}}}}}");
        SchemaIds.Side key = SchemaIds.Side.KEY;
        assertEquals(7, orders.schemas(task).answer("orders", key, 1).schema());
        assertSame(SchemaIds.NONE, orders.schemas(Specs.task(0, 0)));
    }

    @Test
    void anEndIsAnEnd() {
        assertTrue(Orders.of("{\"end\": true}").end);
        assertFalse(Orders.of("{\"held\": {\"eu\": [\"end\"]}}").end);
    }

    private void assertNothingIsOrdered(Orders orders) {
        assertFalse(orders.end);
        assertEquals(Set.of(), orders.held(task));
        assertEquals(NO_LIMIT, orders.records(task));
        assertEquals(NO_LIMIT, orders.bytes(task));
    }
}
