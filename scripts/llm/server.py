"""llama.cpp's own HTTP server: `python server.py MODEL.gguf PORT KEY [GRAMMAR]`, until it is ended.

The grammar, in GBNF, binds every answer.
"""

import signal
import sys

import xllamacpp


def main(model, port, key, grammar=""):
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.hostnames = ["127.0.0.1"]
    params.port = int(port)
    params.offline = True
    params.n_ctx = 4096
    params.n_parallel = 1
    params.warmup = False
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    params.use_jinja = True
    params.fit_params = False
    params.api_keys = [key]
    if grammar:
        params.sampling.grammar = xllamacpp.CommonGrammar(xllamacpp.common_grammar_type.COMMON_GRAMMAR_TYPE_USER, grammar)
    server = xllamacpp.Server(params)
    print("listening", server.listening_address, flush=True)
    signal.sigwait({signal.SIGINT, signal.SIGTERM})


if __name__ == "__main__":
    main(*sys.argv[1:])
