package org.apache.kafka.clients.consumer.internals;

import aggregator.connector.LogEnds;
import aggregator.connector.PrivateFields;
import java.lang.reflect.Field;
import java.util.Map;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;

/**
 * What a consumer knows from the answers to its fetches, and how long these may wait for records.
 *
 * <p>Used by the thread that polls.
 */
public final class FetchSight implements LogEnds.Sight {
    private final Consumer<byte[], byte[]> consumer;
    private final Fetcher<byte[], byte[]> fetcher;
    private final String client;
    private final Field wait;
    private final int usual;
    private int waits;

    private FetchSight(Consumer<byte[], byte[]> consumer, Fetcher<byte[], byte[]> fetcher)
        throws NoSuchFieldException {
        this.consumer = consumer;
        this.fetcher = fetcher;
        wait = PrivateFields.find(FetchConfig.class, "maxWaitMs");
        usual = fetcher.fetchConfig.maxWaitMs;
        waits = usual;
        client = consumer.metrics()
                     .keySet()
                     .stream()
                     .map(it -> it.tags().get("client-id"))
                     .filter(it -> it != null)
                     .findFirst()
                     .orElse("");
    }

    /** ReflectiveOperationException where the client is not of the shape of the pinned one. */
    public static FetchSight of(Consumer<byte[], byte[]> consumer)
        throws ReflectiveOperationException {
        return new FetchSight(consumer, BatchCollector.fetcher(consumer));
    }

    /** ReflectiveOperationException where `of` would not find what only it needs. */
    public static void check() throws ReflectiveOperationException {
        PrivateFields.find(FetchConfig.class, "maxWaitMs");
    }

    @Override
    public long end(TopicPartition of) {
        Long found =
            fetcher.subscriptions.partitionEndOffset(of, fetcher.fetchConfig.isolationLevel);
        return found == null ? -1 : found;
    }

    @Override
    public int leader(TopicPartition of) {
        SubscriptionState.FetchPosition position = fetcher.subscriptions.position(of);
        return position == null ? -1 : position.currentLeader.leader.map(Node::id).orElse(-1);
    }

    @Override
    public boolean owes(int node) {
        return fetcher.nodesWithPendingFetchRequests.contains(node);
    }

    @Override
    public double answers(int node) {
        Map<String, String> tags = Map.of("client-id", client, "node-id", "node-" + node);
        Metric found = consumer.metrics().get(
            new MetricName("response-total", "consumer-node-metrics", "", tags));
        return found == null ? 0 : ((Number) found.metricValue()).doubleValue();
    }

    @Override
    public String topicId(String topic) {
        Uuid found = fetcher.metadata.topicIds().get(topic);
        return found == null || found.equals(Uuid.ZERO_UUID) ? "" : found.toString();
    }

    @Override
    public void waitAtLeast(int millis) {
        int next = Math.max(usual, millis);
        if (next == waits) {
            return;
        }
        try {
            // Each fetch reads it when it is sent. No setting of a client changes while it lives.
            wait.setInt(fetcher.fetchConfig, next);
            waits = next;
        } catch (IllegalAccessException impossible) {
            throw new IllegalStateException(impossible);
        }
    }
}
