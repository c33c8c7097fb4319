"""Start the server: `python3 -m sglang.launch_server --model-path NAME ...`."""

import sys

if __name__ == "__main__":
    from sglang.srt.entrypoints.engine import launch
    from sglang.srt.server_args import prepare_server_args

    launch(prepare_server_args(sys.argv[1:]))
