"""What the scripts of this folder share: the module common of the folder above, and no traffic but to the fleet."""

import asyncio
import atexit
import os
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).parent.parent))
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # its prices come with the package
os.environ["LANGSMITH_TRACING"] = "false"
os.environ["LLAMA_INDEX_DISABLE_TELEMETRY"] = "1"

_runner = asyncio.Runner()
atexit.register(_runner.close)  # ends what packages left running: Python may crash when it collects such a task at its end


def wait(coroutine):
    """Runs a coroutine in the one event loop of the script, since some clients keep connections in theirs."""
    return _runner.run(coroutine)
