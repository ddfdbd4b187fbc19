import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.streams.StreamsConfig;

/** Settings: what the comparison asks for, and beside it what one would tune in good faith. */
final class PeerSettings {
    private PeerSettings() {}

    static Properties base(String bootstrap, String appId, String folder, int threads, int commitMs) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, appId);
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, folder);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, threads);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, commitMs);
        return settings;
    }

    static void tune(Properties settings) {
        // A killed process is noticed, and its tasks restored elsewhere, after 6 s, the shortest that a broker
        // allows by default. Default 45 s.
        settings.put(StreamsConfig.mainConsumerPrefix(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG), 6_000);
        settings.put(StreamsConfig.mainConsumerPrefix(ConsumerConfig.HEARTBEAT_INTERVAL_MS_CONFIG), 1_500);
        // Room for all 100k keys (some 200 bytes each in the cache) in every thread: between two commits a key
        // is written once to RocksDB, changelog and output, however often it came. Default 10 MB.
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 128L << 20);
        // Bloom filters, one shared block cache, larger write buffers: see there.
        settings.put(StreamsConfig.ROCKSDB_CONFIG_SETTER_CLASS_CONFIG, PeerRocksDb.class);
        // Longer turns between polls and more records at hand: less time spent in the loop around a record.
        // Defaults 1000 and 1000.
        settings.put(StreamsConfig.BUFFERED_RECORDS_PER_PARTITION_CONFIG, 10_000);
        settings.put(StreamsConfig.mainConsumerPrefix(ConsumerConfig.MAX_POLL_RECORDS_CONFIG), 10_000);
        // Fewer and larger fetches; small ones are still answered within 50 ms. Defaults 1 MB and 1 byte.
        settings.put(StreamsConfig.mainConsumerPrefix(ConsumerConfig.MAX_PARTITION_FETCH_BYTES_CONFIG), 4 << 20);
        settings.put(StreamsConfig.mainConsumerPrefix(ConsumerConfig.FETCH_MIN_BYTES_CONFIG), 64 << 10);
        settings.put(StreamsConfig.mainConsumerPrefix(ConsumerConfig.FETCH_MAX_WAIT_MS_CONFIG), 50);
        settings.put(StreamsConfig.mainConsumerPrefix(ConsumerConfig.RECEIVE_BUFFER_CONFIG), 1 << 20);
        // A restore reads whole changelogs: as much as a poll can take.
        settings.put(StreamsConfig.restoreConsumerPrefix(ConsumerConfig.MAX_POLL_RECORDS_CONFIG), 20_000);
        settings.put(
            StreamsConfig.restoreConsumerPrefix(ConsumerConfig.MAX_PARTITION_FETCH_BYTES_CONFIG), 4 << 20);
        // Larger batches (default 16 KB) and a buffer that holds what one commit flushes from the cache, so
        // that the thread does not wait for the sender. Kafka Streams lingers 100 ms by default; a commit
        // flushes anyway, so a shorter time would only make batches smaller.
        settings.put(StreamsConfig.producerPrefix(ProducerConfig.BATCH_SIZE_CONFIG), 256 << 10);
        settings.put(StreamsConfig.producerPrefix(ProducerConfig.BUFFER_MEMORY_CONFIG), 128L << 20);
        settings.put(StreamsConfig.producerPrefix(ProducerConfig.LINGER_MS_CONFIG), 100);
        // Broker and disk take a fraction of the bytes; lz4 costs the least time. Default none.
        settings.put(StreamsConfig.producerPrefix(ProducerConfig.COMPRESSION_TYPE_CONFIG), "lz4");
    }
}
