"""What the scripts of this folder share: the module common of the folder above, and no traffic but to the fleet."""

import asyncio
import os
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).parent.parent))
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # its prices come with the package
os.environ["LANGSMITH_TRACING"] = "false"
os.environ["LLAMA_INDEX_DISABLE_TELEMETRY"] = "1"

_loop = asyncio.new_event_loop()


def wait(coroutine):
    """Runs a coroutine in the one event loop of the script, since some clients keep connections in theirs."""
    return _loop.run_until_complete(coroutine)
