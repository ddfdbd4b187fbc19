"""The log on Apache Kafka, through librdkafka. Nothing else in tidegate imports confluent_kafka."""
