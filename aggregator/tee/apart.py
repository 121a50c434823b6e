"""The tee in a process of its own, beside an instance that has started it (`tee/beside.py`).

Tells `event`s, a `report` about once a second, and at last an `error` if there is one; `held` with
it says that another tee has the folder.
"""

from __future__ import annotations

from aggregator.apart import be_apart, leave
from aggregator.errors import EXIT_OTHER, AggregatorError, HeldError
from aggregator.events import Event


def main() -> None:
    """Land what the hub has until whoever started this is gone, or asks it to end."""
    from aggregator.tee.run import tee

    config, tell, stop = be_apart()

    def tell_event(event: Event) -> None:
        fields = dict(event.fields)
        tell({"event": {"kind": event.kind, "message": event.message, "fields": fields}})

    try:
        tee(
            config,
            stop=stop,
            tell=tell_event,
            show=lambda report: tell({"report": report.model_dump(mode="json")}),
        )
    except HeldError as error:
        tell({"error": str(error), "held": True})
        leave(error.exit_code)
    except AggregatorError as error:
        tell({"error": str(error)})
        leave(error.exit_code)
    except Exception as error:  # nobody is there to see it: it is the answer
        tell({"error": f"{type(error).__name__}: {error}"})
        leave(EXIT_OTHER)
    leave(0)


if __name__ == "__main__":
    main()
