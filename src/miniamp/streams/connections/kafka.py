"""The messages of a Kafka topic."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from miniamp import checks
from miniamp.streams.connections.base import WAIT, Entry, LiveConnection, Reader
from miniamp.streams.pieces import Mark, needed

#: Seconds to wait for the first answer of a broker.
CONNECT = 10.0


class KafkaTopic(LiveConnection):
    """The messages of all partitions of a topic, each a JSON object.

    The mark is the next offset of each partition. Nothing is committed to the broker: the
    checkpoint knows how far the topic was read. Messages of several partitions come in the order
    in which they arrive, so that only one partition is read in the same order every time.

    Parameters
    ----------
    address : str
        kafka://broker:port/topic; several brokers with commas between.
    idle_seconds, rows
        See `LiveConnection`.
    """

    format = "kafka"

    @contextmanager
    def _reader(self, mark: Mark) -> Iterator[Reader]:
        module = needed("confluent_kafka", "reading Kafka topics")
        consumer = module.Consumer(
            {
                "bootstrap.servers": self.host,
                "group.id": "miniamp",  # asked for, and never used: nothing is committed
                "enable.auto.commit": False,
                "auto.offset.reset": "error",  # rows that the broker dropped are no silent gap
                "log_level": 0,
            }
        )

        def read(most: int) -> list[Entry]:
            entries: list[Entry] = []
            for message in consumer.consume(most, WAIT):
                if message.error() is not None:
                    raise module.KafkaException(message.error())
                entries.append(
                    (str(message.partition()), message.offset() + 1, message.value() or b"")
                )
            return entries

        try:
            topic = consumer.list_topics(self.topic, CONNECT).topics[self.topic]
            if topic.error is not None:
                raise module.KafkaException(topic.error)
            consumer.assign(
                [
                    module.TopicPartition(self.topic, p, mark.get(str(p), module.OFFSET_BEGINNING))
                    for p in sorted(topic.partitions)
                ]
            )
            yield read
        except module.KafkaException as error:
            raise checks.refuse(
                self.name, error.args[0].str(), "a topic of a Kafka broker", "check the address"
            ) from None
        finally:
            consumer.close()
