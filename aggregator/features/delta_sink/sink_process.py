"""The tee in a process of its own, beside an instance that has started it.

Sends `event`s, a `report` about once a second, and at last an `error` if there is one; `held` with
it says that another tee has the folder.
"""

from aggregator.features.child_process import enter_child, live
from aggregator.model.events import Event


def main() -> None:
    """Land what the hub has until the parent is gone, or asks it to end."""
    from aggregator.features.delta_sink.sink import tee

    config, send, stop = enter_child()

    def send_event(event: Event) -> None:
        fields = dict(event.fields)
        send({"event": {"kind": event.kind, "message": event.message, "fields": fields}})

    def work() -> None:
        tee(
            config,
            stop=stop,
            emit=send_event,
            show=lambda report: send({"report": report.model_dump(mode="json")}),
        )

    live(send, work)


if __name__ == "__main__":
    main()
