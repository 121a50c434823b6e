// Reads a topic of several clusters and writes it into a hub by franz-go, and does nothing else: no
// positions are kept, nothing is recovered or supervised. Each record gets five headers that say
// where it is from. What a copier reaches in another language that makes an object of each record.
//
// Usage: loop TOPIC CODEC BATCH_BYTES LINGER_MS HUB ALIAS=SERVERS...
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	fetchBytes     = 64 << 20
	partitionBytes = 8 << 20
	buffered       = 100_000
)

var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression().WithLevel(1),
}

func main() {
	if len(os.Args) < 7 {
		stop(fmt.Errorf("usage: loop TOPIC CODEC BATCH_BYTES LINGER_MS HUB ALIAS=SERVERS..."))
	}
	ctx, ended := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer ended()
	topic := os.Args[1]
	hub, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(os.Args[5], ",")...),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerBatchCompression(codecs[os.Args[2]]),
		kgo.ProducerBatchMaxBytes(int32(number(os.Args[3]))),
		kgo.ProducerLinger(time.Duration(number(os.Args[4]))*time.Millisecond),
		kgo.MaxBufferedRecords(buffered),
	)
	stop(err)
	for _, source := range os.Args[6:] {
		alias, servers, _ := strings.Cut(source, "=")
		go read(ctx, hub, topic, alias, strings.Split(servers, ","))
	}
	<-ctx.Done()
	stop(hub.Flush(context.Background()))
}

func read(ctx context.Context, hub *kgo.Client, topic, alias string, servers []string) {
	source, err := kgo.NewClient(
		kgo.SeedBrokers(servers...),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxBytes(fetchBytes),
		kgo.FetchMaxPartitionBytes(partitionBytes),
	)
	stop(err)
	cluster, name := []byte(alias), []byte(topic)
	sent := func(_ *kgo.Record, err error) { stop(err) }
	for {
		fetches := source.PollFetches(ctx)
		if ctx.Err() != nil {
			return
		}
		fetches.EachError(func(_ string, _ int32, err error) { stop(err) })
		fetches.EachRecord(func(it *kgo.Record) {
			made := &kgo.Record{
				Topic: topic, Key: it.Key, Value: it.Value, Timestamp: it.Timestamp,
				Headers: append(it.Headers,
					kgo.RecordHeader{Key: "origin.cluster", Value: cluster},
					kgo.RecordHeader{Key: "origin.topic", Value: name},
					kgo.RecordHeader{Key: "origin.partition", Value: text(int64(it.Partition))},
					kgo.RecordHeader{Key: "origin.offset", Value: text(it.Offset)},
					kgo.RecordHeader{
						Key: "origin.timestamp", Value: text(it.Timestamp.UnixMilli()),
					}),
			}
			hub.Produce(context.Background(), made, sent)
		})
	}
}

func text(number int64) []byte {
	return strconv.AppendInt(nil, number, 10)
}

func number(given string) int {
	found, err := strconv.Atoi(given)
	stop(err)
	return found
}

func stop(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
