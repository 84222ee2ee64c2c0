package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/cmd/console"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/lab/device/phonetest"
	"mm-abi.org/mm/lab/track/tracktest"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/registrytest"
	"mm-abi.org/mm/registry/server"
	"mm-abi.org/mm/registry/sigstore/sigstoretest"
)

// documented is what docs/JSON.md says of one command.
type documented struct {
	types    map[string]string // key path → JSON type
	optional map[string]bool
	example  any
}

// readJSONDoc reads the sections of docs/JSON.md, by command. A key path is
// "targets[].ref"; the last element * stands for keys that are data.
func readJSONDoc(t *testing.T) map[string]*documented {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "JSON.md"))
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| `([^`]*)` \\| (\\w+)(\\?)? \\|")
	block := regexp.MustCompile("(?s)```json\n(.*?)```")
	out := map[string]*documented{}
	for _, section := range strings.Split(string(text), "\n## mm ")[1:] {
		name, body, _ := strings.Cut(section, "\n")
		if next := strings.Index(body, "\n## "); next >= 0 {
			body = body[:next]
		}
		d := &documented{types: map[string]string{}, optional: map[string]bool{}}
		for _, m := range row.FindAllStringSubmatch(body, -1) {
			if d.types[m[1]] != "" {
				t.Errorf("mm %s: %s stands twice", name, m[1])
			}
			d.types[m[1]], d.optional[m[1]] = m[2], m[3] != ""
		}
		m := block.FindStringSubmatch(body)
		if m == nil {
			t.Errorf("mm %s: no example", name)
			continue
		}
		if err := json.Unmarshal([]byte(m[1]), &d.example); err != nil {
			t.Errorf("mm %s: the example: %v", name, err)
		}
		out[name] = d
	}
	return out
}

// shape lists the key paths of a JSON value with their types.
func shape(path string, v any, into map[string]string) {
	kind := ""
	switch v := v.(type) {
	case nil:
		kind = "null"
	case string:
		kind = "string"
	case bool:
		kind = "bool"
	case float64:
		kind = "number"
	case []any:
		kind = "array"
		for _, e := range v {
			shape(path+"[]", e, into)
		}
	case map[string]any:
		kind = "object"
		for k, e := range v {
			shape(strings.TrimPrefix(path+"."+k, "."), e, into)
		}
	}
	into[path] = kind
}

// check holds a value against what is documented, and returns the keys met.
func (d *documented) check(t *testing.T, what string, v any) map[string]bool {
	t.Helper()
	have, met := map[string]string{}, map[string]bool{}
	shape("", v, have)
	for _, path := range slices.Sorted(maps.Keys(have)) {
		key := path
		for k := range d.types {
			if free, ok := strings.CutSuffix(k, "*"); ok && strings.HasPrefix(path, free) && !strings.ContainsAny(path[len(free):], "[") {
				key = k
			}
		}
		met[key] = true
		switch want := d.types[key]; {
		case path == "" && want == "", strings.HasSuffix(path, "[]") && want == "" && have[path] == "object":
		case want == "":
			t.Errorf("%s: %s (%s) is not documented", what, path, have[path])
		case want != "any" && want != have[path]:
			t.Errorf("%s: %s is %s, documented as %s", what, path, have[path], want)
		}
	}
	return met
}

// jsonWorld is a folder with what the commands need, and a registry.
func jsonWorld(t *testing.T) (host string) {
	t.Helper()
	learn, err := txtar.ParseFile(filepath.Join("testdata", "script", "learn.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	lab, err := txtar.ParseFile(filepath.Join("testdata", "script", "lab.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	study, err := txtar.ParseFile(filepath.Join("testdata", "script", "experiment.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	repo, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	files, err := mediaFiles()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("MM_HOME", filepath.Join(t.TempDir(), "home"))
	t.Setenv("MM_KEY_PASSWORD", "")
	t.Setenv("MM_NATIVE", playedNative(t))
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	models := registrytest.NewHub(t)
	t.Setenv("HF_ENDPOINT", models.URL)
	t.Setenv("HF_HOME", t.TempDir())
	t.Chdir(t.TempDir())
	if err := os.Mkdir("lib", 0o755); err != nil {
		t.Fatal(err)
	}
	for name, version := range map[string]string{"libonnxruntime.so.1": "1.30.0", "libQnnHtp.so": "2.51.0+260929181845"} {
		if err := os.WriteFile(filepath.Join("lib", name), []byte(version), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	maps.Copy(files, qnnFiles())
	private := sigstoretest.New(t, time.Now())
	signing := scriptSigning("")
	signing.Message = files["p.png"]
	files["root.json"], files["weights.json"] = private.Root(), private.Bundle(signing)
	files["routing.yaml"] = []byte("stage: preference\ncore: {base: functions/core-llm/core-llm.gguf, lora: {rank: 2}}\ndata: {errands: {n: 3}}\nbatch_size: 1\nstop: {steps: 1}\n")
	files["few.jobs.yaml"] = []byte("version: 1\nname: few\ncommands: [{name: one, run: [version], outputs: [b.txt]}]\n")
	files["improve.yaml"] = []byte("stage: improve\nmethod: star\ncore: functions/core-llm/core-llm.gguf\nexamples: 2\nquestions: 1\nchoice: 1\nheld_out: 2\nrounds: 1\nsamples: 1\nsteps: 1\nbatch_size: 1\nlora: {rank: 2}\n")
	learn.Files = append(append(append(append(learn.Files, lab.Files...), study.Files...), sentenceModels(t, repo)...), append(scriptFiles(t, repo, "suite.txtar", "suite"), scriptFiles(t, repo, "data.txtar", "rows")...)...)
	for name, data := range files {
		if err := os.WriteFile(name, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// What speaks when espeak-ng is asked to; mm asks it with its arguments.
	voice := "#!/bin/sh\n[ \"$1\" = --version ] && exec echo 'a voice 1.0'\n[ \"$1\" = --voices=variant ] && exec echo '!v/f2'\nexec cat s.wav\n"
	if err := os.WriteFile("voice", []byte(voice), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS("functions", os.DirFS(filepath.Join(repo, "catalog"))); err != nil {
		t.Fatal(err)
	}
	for _, f := range learn.Files {
		if err := os.MkdirAll(filepath.Dir(f.Name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(f.Name, f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS("catalog", os.DirFS(filepath.Join(repo, "catalog"))); err != nil { // mm demo reads it
		t.Fatal(err)
	}
	if err := os.CopyFS("builds", os.DirFS(filepath.Join(repo, "builds"))); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("mm.yaml", fmt.Appendf(nil, "modules: [%q]\n", filepath.Join(repo, "catalog")), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := phonetest.NewKit("phone", 4096); err != nil {
		t.Fatal(err)
	}
	phones := &phonetest.Server{Phones: []*phonetest.Phone{newPhone(t)}}
	if err := phones.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(phones.Close)
	serverPort(t, phones.Addr())
	store, err := registry.Open(t.TempDir(), registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	h, err := server.New(store, server.Options{User: "u", Password: "p"})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(h)
	t.Cleanup(func() { web.Close(); store.Close() })
	return strings.TrimPrefix(web.URL, "http://")
}

// scriptFiles returns the files of a script in a folder.
func scriptFiles(t *testing.T, repo, script, dir string) (files []txtar.File) {
	t.Helper()
	a, err := txtar.ParseFile(filepath.Join(repo, "cmd", "mm", "testdata", "script", script))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range a.Files {
		files = append(files, txtar.File{Name: dir + "/" + f.Name, Data: f.Data})
	}
	return files
}

// sentenceModels returns the folders of an encoder and of a reranker of texts.
func sentenceModels(t *testing.T, repo string) (files []txtar.File) {
	t.Helper()
	script, err := txtar.ParseFile(filepath.Join(repo, "cmd", "mm", "testdata", "script", "embed.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range script.Files {
		if strings.Contains(f.Name, "/") {
			files = append(files, txtar.File{Name: "sentence/" + f.Name, Data: f.Data})
		}
	}
	for name, weights := range map[string]string{"tiny": "bert", "judge": "rank-bert"} {
		data, err := os.ReadFile(filepath.Join(repo, "onnx", "sentence", "testdata", weights+".safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, txtar.File{Name: "sentence/" + name + "/model.safetensors", Data: data})
	}
	return files
}

// What docs/JSON.md says of each command's output is what the command prints:
// the same keys of the same types, all that are not optional, and no null.
func TestJSON(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: slow")
	}
	doc := readJSONDoc(t)
	host := jsonWorld(t)
	store, tracking := filepath.ToSlash(t.TempDir()), httptest.NewServer(&tracktest.Server{})
	defer tracking.Close()
	queue, playedJob := playedQueue(t)
	met := map[string]map[string]bool{}
	for _, step := range []struct {
		command string // as the section is called
		args    string
		code    int
	}{
		{"version", "", exitOK},
		{"doctor", "", exitOK},
		{"runtime install", "onnxruntime --from lib", exitOK},
		{"runtime ls", "", exitOK},
		{"ls", "", exitOK}, // of an empty store
		{"gc", "", exitOK},
		{"fsck", "", exitOK},
		{"keys generate", "", exitOK},
		{"keys generate", "--out other --no-trust", exitOK},
		{"trust add", "other.pub --name other --match x/** --not-after 2099-01-01", exitOK},
		{"trust ls", "", exitOK},
		{"trust rm", "other", exitOK},
		{"validate", "builds/p-lite.graph.yaml", exitOK},
		{"lock", "builds/m-lite.graph.yaml", exitOK},
		{"assemble", "builds/m-lite.graph.yaml --out dist --sign default", exitOK},
		{"sign", "m-lite:0.1.0", exitOK},
		{"verify", "dist", exitOK},
		{"attest", "dist --type sbom", exitOK},
		{"card", "dist --target laptop", exitOK},
		{"dashboard build", "dist --out pages", exitOK},
		{"licenses", "dist --target laptop", exitOK},
		{"sign --oms", "builds --signature builds.sig", exitOK},
		{"verify --oms", "builds --signature builds.sig", exitOK},
		{"verify --bundle", "weights.json p.png --trusted-root root.json --certificate-oidc-issuer https://token.test --certificate-identity-regexp ^.*$", exitOK},
		{"inspect", "dist", exitOK},
		{"inspect", "dist/laptop", exitOK},
		{"run", "m-lite:0.1.0 --target laptop --prompt Once --max-tokens 4", exitOK},
		{"run", "builds/p-lite.graph.yaml --target laptop --image p.png --prompt Once --out-image out.png --trace", exitOK},
		{"gc", "--dry-run", exitOK},
		{"run --input", "functions/audio-enc --input s.wav --output frame.npy", exitOK},
		{"embed", "sentence/tiny cat", exitOK},
		{"rerank", "sentence/judge cat dog", exitOK},
		{"run --smoke", "m-lite:0.1.0 --target laptop", exitOK},
		{"tag", "m-lite:0.1.0 mine:1 --alias", exitOK},
		{"login", host + " --user u --password-stdin --plaintext", exitOK},
		{"push", "m-lite:0.1.0 " + host + "/m-lite", exitOK},
		{"push", "m-lite:0.1.0 hf://me/lite --target laptop", exitOK},
		{"push", "m-lite:0.1.0 " + host + "/images/lite --as-image --target laptop", exitOK},
		{"export server", host + "/m-lite:0.1.0-laptop --kind compose --server example/app:1 --out compose", exitOK},
		{"pull", "hf://me/lite --out fetched", exitOK},
		{"promote", host + "/m-lite:0.1.0 --to staging", exitOK},
		{"inspect", host + "/m-lite:0.1.0 --remote", exitOK},
		{"pull", host + "/m-lite:0.1.0", exitOK},
		{"registry ls", host, exitOK},
		{"registry tags", host + "/m-lite", exitOK},
		{"registry attach", host + "/m-lite:0.1.0 p.png --type image/png", exitOK},
		{"registry cp", host + "/m-lite:0.1.0 " + host + "/copy/m-lite", exitOK},
		{"registry diff", host + "/m-lite:0.1.0 " + host + "/copy/m-lite:0.1.0", exitOK},
		{"registry rm", host + "/copy/m-lite:0.1.0", exitOK},
		{"logout", host, exitOK},
		{"ls", "", exitOK},
		{"rm", "mine:1", exitOK},
		{"gc", "--grace 0s", exitOK},
		{"fsck", "", exitOK},
		{"audit verify", "", exitOK},
		{"init", "fresh", exitOK},
		{"module new", "encoder enc --license MIT", exitOK},
		{"run --input", "enc --input image=p.png --output patch_tokens=out.npy", exitOK},
		{"run --input", "builds/p-lite.graph.yaml --input vision-enc.image=p.png --target laptop", exitOK},
		{"module check", "enc", exitOK},
		{"module import onnx", "enc/enc.onnx --name eye --version 1.0.0 --license MIT --preprocess image={\"layout\":\"NHWC\",\"dtype\":\"uint8\"} --postprocess patch_tokens={\"labels\":{\"top\":2}}", exitOK},
		{"run --input", "eye --input p.png", exitOK},
		{"module add", "enc", exitOK},
		{"inspect FILE", "enc/enc.onnx", exitOK},
		{"onnx check", "enc/enc.onnx --engine core", exitOK},
		{"onnx cut", "enc/enc.onnx --to sum -o cut.onnx", exitOK},
		{"onnx strip", "enc/enc.onnx -o strip.onnx", exitOK},
		{"onnx quant", "enc/enc.onnx -o quant.onnx --golden --shape image=1x32x32x3", exitOK},
		{"inspect FILE", "quant.onnx --nodes", exitOK},
		{"qnn inspect", "q.tflite", exitOK},
		{"qnn inspect", "q.dlc", exitOK},
		{"qnn wrap", "q.bin --out q_ctx.onnx", exitOK},
		{"qnn inspect", "q_ctx.onnx", exitOK},
		{"qnn extract", "q.tflite --out parts", exitOK},
		{"qnn check", "q.bin --target SM8750@2.47 --accept skel,memory", exitOK},
		{"qnn check", "q.bin --target SM8650@2.40", diag.ExitInvalid},
		{"qnn soc ls", "", exitOK},
		{"qnn compat", "", exitOK},
		{"qnn probe", "--libs lib", exitOK},
		{"device ls", "", exitOK},
		{"device probe", "", exitOK},
		{"device plan", "phone/model.bin --runner phone/mm-device --libs phone/lib", exitOK},
		{"device push", "phone/model.bin", exitOK},
		{"device run", "phone/model.bin --runner phone/mm-device --libs phone/lib --reference phone/model.onnx --out phone/record.json", exitOK},
		{"device run", "phone/model.bin --runner phone/mm-device --libs phone/lib --nonce 0123456789abcdef", exitOK},
		{"device evidence", "phone/record.json", diag.ExitMissed},
		{"device pull", "sha256/8cf50b1178daec53c0d34f0e9ce139a796c2712ea813c456b9bc1e7f43ff1244 --out pulled", exitOK},
		{"device rm", "", exitOK},
		{"inspect", "enc:0.1.0", exitOK},
		{"ls", "", exitOK},
		{"tokenizer train", "text.txt --vocab 300 --out tok.gguf", exitOK},
		{"tokenizer encode", "-t tok.gguf cat", exitOK},
		{"tokenizer fertility", "-t tok.gguf text.txt", exitOK},
		{"tokenizer fertility", "-t tok.gguf page.xml --base eng", exitOK},
		{"lab run", "real.yaml --out real", exitOK},
		{"lab run", "hot.yaml --out hot --simulate", exitOK},
		{"lab verify", "real", exitOK},
		{"experiment plan", "small.study.yaml", exitOK},
		{"experiment run", "small.study.yaml --out small", exitOK},
		{"experiment status", "small", exitOK},
		{"experiment watch", "small", exitOK},
		{"experiment explain", "small slow", exitOK},
		{"experiment report", "small", exitOK},
		{"jobs submit", "version --server QUEUE --output a.txt", exitOK},
		{"jobs run", "few.jobs.yaml --server QUEUE --out few", exitOK},
		{"jobs export kubernetes", "few.jobs.yaml --image host/mm@sha256:" + strings.Repeat("0", 64) + " --queue team --out manifests", exitOK},
		{"jobs results", "--server QUEUE JOB", diag.ExitFailure},
		{"jobs status", "--server QUEUE", exitOK},
		{"track register", "tiny host/team/tiny@sha256:" + strings.Repeat("0", 64) + " --alias prod --server MLFLOW", exitOK},
		{"data check", "rows/m.data.yaml", exitOK},
		{"data build", "rows/m.data.yaml --out rows/out", exitOK},
		{"data scrub", "rows/lines.txt --out rows/scrubbed.txt", exitOK},
		{"data croissant export", "rows/out", exitOK},
		{"data croissant import", "rows/out/croissant.json --out rows/again.data.yaml", exitOK},
		{"bucket cp", "rows file://STORE/data", exitOK},
		{"bucket ls", "file://STORE/data", exitOK},
		{"bucket stat", "file://STORE/data/lines.txt", exitOK},
		{"bucket promote", "file://STORE core@1.0.0 data/lines.txt --to staging", exitOK},
		{"bucket fetch", "file://STORE staging/core@1.0.0 rows/fetched", exitOK},
		{"bucket rm", "file://STORE/data/b.txt", exitOK},
		{"lab summary", "real", exitOK},
		{"lab summary", "hot", exitOK},
		{"lab heartbeat", "hot", diag.ExitMissed},
		{"lab falsify", "fertility.json", diag.ExitMissed},
		{"lab boundary", "boundary.json docs", diag.ExitMissed},
		{"lab truth", "records.jsonl", exitOK},
		{"lab corpus", "manifest.json", diag.ExitMissed},
		{"lab probe", "phone", exitOK},
		{"device sign", "record.json", exitOK},
		{"device verify", "record.json", exitOK},
		{"device run", "phone/model.bin --runner phone/mm-device --libs phone/lib --nonce 0123456789abcdef --reference phone/model.onnx --sign default", exitOK},
		{"lab backend promote", "litert_qnn record.json", exitOK},
		{"lab backend ls", "", exitOK},
		{"lab backend route", "inference_only --soc SM8750", exitOK},
		{"lab schedule choose", "history.jsonl --op x --backend gpu --backend npu --policy ucb", exitOK},
		{"lab schedule replay", "history.jsonl", exitOK},
		{"lab graph show", "shown --node run-1", exitOK},
		{"lab pending add", "pending.jsonl plan.yaml --kind github --repo o/r --path p --blocked-by x", exitOK},
		{"lab pending ls", "pending.jsonl", exitOK},
		{"data generate", "calls.txt --documents 16", exitOK},
		{"data speech", "spoken --program ./voice --voice f2 --digits 1", exitOK},
		{"data scenes", "--n 2 --out scenes", exitOK},
		{"train", "tiny.yaml --out run --sample cat", exitOK},
		{"train export torch", "tiny.yaml --out torch", exitOK},
		{"eval lm", "run/best.safetensors --ngram --sample cat", exitOK},
		{"train", "eye.yaml --out eye-run", exitOK},
		{"eval sense", "eye-run/last.safetensors --n 2 --ablate", exitOK},
		{"eval sense", "builds/p-lite.graph.yaml --target laptop --n 2 --kinds shapes --ask */caption --ablate", exitOK},
		{"eval tools", "builds/m-lite.graph.yaml --target laptop --n 2 --kinds arithmetic,units", exitOK},
		{"eval draw", "builds/p-lite.graph.yaml --target laptop --n 2 --ask */caption --ablate", exitOK},
		{"train", "routing.yaml --out routing", exitOK},
		{"train", "improve.yaml --out improved", exitOK},
		{"eval preference", "routing/last.safetensors --n 3", exitOK},
		{"export peft", "functions/senses --core functions/core-llm --out peft", exitOK},
		{"track sync", "run --server MLFLOW", exitOK},
		{"track export", "run --format openlineage --out exported", exitOK},
		{"module pack", "run/best.safetensors --name tiny --version 1.0.0 --license MIT", exitOK},
		{"module import gguf", "tiny/tiny.gguf --name again --version 1.0.0 --license MIT", exitOK},
		{"inspect FILE", "tiny/tiny.gguf", exitOK},
		{"eval suite", "tiny/tiny.gguf suite/tasks/choose.yaml --out suite/first", exitOK},
		{"eval compare", "suite/first suite/first --margin 0.02", diag.ExitMissed},
		{"eval budget", "tiny/tiny.gguf suite/budgets.yaml", exitOK},
		{"skill new", "word-count --lang go", exitOK},
		{"skill new", "words", exitOK},
		{"module add", "words", exitOK},
		{"push", "words:0.1.0 oci:layout:words", exitOK},
		{"skill image", "oci:layout:words", exitOK},
		{"quantize", "tiny/tiny.gguf small.gguf --to Q5_K_S", exitOK},
		{"gradcheck", "", exitOK},
		{"trust accept", "builds/trust.yaml", exitOK},
		{"demo", "--graph m-lite", exitOK},
		{"validate", "fault.yaml", diag.ExitInvalid},
	} {
		if step.command == "trust accept" {
			home, err := os.ReadFile(filepath.Join(os.Getenv("MM_HOME"), "trust.yaml"))
			if err == nil {
				err = os.WriteFile("builds/trust.yaml", home, 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		name := "mm " + step.command + " " + step.args
		command := strings.TrimSuffix(strings.TrimSuffix(step.command, " --input"), " FILE")
		words := strings.Fields("mm " + command + " " + strings.NewReplacer("STORE", store, "MLFLOW", tracking.URL, "QUEUE", queue, "JOB", playedJob).Replace(step.args) + " --json")
		var stdout, stderr strings.Builder
		if code := run(context.Background(), words, strings.NewReader("p\n"), &stdout, &stderr); code != step.code {
			t.Errorf("%s: exit %d: %s%s", name, code, stdout.String(), stderr.String())
			continue
		}
		if os.Getenv("MM_JSON_SHOW") != "" {
			t.Logf("## %s\n%s", name, stdout.String())
		}
		var v any
		if err := json.Unmarshal([]byte(stdout.String()), &v); err != nil {
			t.Errorf("%s: %v: %s", name, err, stdout.String())
			continue
		}
		d := doc[step.command]
		if d == nil {
			t.Errorf("docs/JSON.md does not speak of mm %s", step.command)
			continue
		}
		if met[step.command] == nil {
			met[step.command] = map[string]bool{}
		}
		maps.Copy(met[step.command], d.check(t, name, v))
	}
	for name, d := range doc {
		if name == "skill tools" || name == "run --out-audio" || name == "ci run" { // want a server that is a native program, a voice, mm as a program
			d.check(t, "the example of mm "+name, d.example)
			continue
		}
		if met[name] == nil {
			t.Errorf("mm %s is documented and not tried", name)
			continue
		}
		shown := d.check(t, "the example of mm "+name, d.example)
		for key := range d.types {
			if !met[name][key] && !d.optional[key] {
				t.Errorf("mm %s never prints %s", name, key)
			}
			if !shown[key] && !d.optional[key] {
				t.Errorf("the example of mm %s lacks %s", name, key)
			}
		}
	}
	for _, name := range jsonCommands((&program{}).app().Commands) {
		if doc[name] == nil && doc[name+" --smoke"] == nil && name != "module import llama2c" && name != "module import hf" && name != "skill install" && name != "runtime push" && name != "runtime pull" && name != "qnn compile" && name != "serve" { // which print what others print, run on, or need libraries that are not here
			t.Errorf("docs/JSON.md does not speak of mm %s, which has --json", name)
		}
	}
}

// jsonCommands lists the commands that have --json.
func jsonCommands(commands []*cli.Command) (names []string) {
	console.EachCommand(commands, "", func(path string, c *cli.Command) {
		if slices.ContainsFunc(c.Flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), "json") }) {
			names = append(names, path)
		}
	})
	return names
}
