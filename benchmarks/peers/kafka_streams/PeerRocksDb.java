import java.util.Map;
import org.apache.kafka.streams.state.RocksDBConfigSetter;
import org.rocksdb.BlockBasedTableConfig;
import org.rocksdb.BloomFilter;
import org.rocksdb.Cache;
import org.rocksdb.CompressionType;
import org.rocksdb.LRUCache;
import org.rocksdb.Options;

/** RocksDB for four small stores in one process. */
public final class PeerRocksDb implements RocksDBConfigSetter {
    // One for all stores: the busiest gets the most. Kafka Streams gives each store 50 MB of its own.
    private static final Cache BLOCKS = new LRUCache(128L << 20);
    // A first count of a key asks every file for it; the filter answers without reading. Default none.
    private static final BloomFilter FILTER = new BloomFilter(10);

    @Override
    public void setConfig(String store, Options options, Map<String, Object> settings) {
        BlockBasedTableConfig table = (BlockBasedTableConfig) options.tableFormatConfig();
        table.setBlockCache(BLOCKS);
        table.setFilterPolicy(FILTER);
        // Filters and indexes within the cache, so that memory has one bound; kept while anything is.
        table.setCacheIndexAndFilterBlocks(true);
        table.setPinL0FilterAndIndexBlocksInCache(true);
        options.setTableFormatConfig(table);
        // A store of 25k counts fits into one buffer: rewrites of a key end in memory. Default 16 MB, three.
        options.setWriteBufferSize(32L << 20);
        options.setMaxWriteBufferNumber(3);
        // Two cores: more threads would take them from the processing. Numbers of 8 bytes do not compress.
        options.setIncreaseParallelism(2);
        options.setCompressionType(CompressionType.NO_COMPRESSION);
    }

    @Override
    public void close(String store, Options options) {
        // Cache and filter are shared by all stores and end with the process.
    }
}
