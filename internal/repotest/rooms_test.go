package repotest_test

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// room is a top-level folder that holds Go packages, with what it does.
type room struct{ name, does string }

// rooms lists the top-level folders from the top: a package imports packages of
// its own room and of rooms below.
var rooms = []room{
	{"tools", "holds programs for developers: benchmarks, releases, mutations, documentation."},
	{"cmd", "holds the programs: mm, which only parses flags and prints, mm-native, the child process that loads native engines, and mm-queue, the server of jobs."},
	{"serve", "answers other programs: over HTTP as OpenAI, Anthropic and Ollama do, and over MCP."},
	{"lab", "runs experiments and devices: long runs that survive a kill, evidence, backends confirmed by records."},
	{"eval", "measures an assembled build on inputs it has not seen."},
	{"workspace", "resolves a reference to verified bytes: home, settings, trust, store."},
	{"assemble", "turns a graph into signed artifacts: check, export, quantize, compose."},
	{"runtimes", "executes models: the contract of engines, the engines, and the runner that joins them."},
	{"skills", "calls tools inside sandboxes."},
	{"builds", "parses build graphs and locks, resolves versions, describes assembled builds."},
	{"registry", "stores, signs, pushes and pulls OCI artifacts."},
	{"modules", "parses, checks, creates and imports modules."},
	{"train", "trains language models, encoders, projectors and decoders."},
	{"onnx", "reads, checks, rewrites and executes ONNX models."},
	{"core", "holds the language model engine: formats, tokenizers, kernels, inference, grammars."},
	{"schemas", "validates YAML documents against JSON Schemas."},
	{"abi", "defines MM-ABI: names, shapes, ports, references, media types."},
	{"internal", "holds what every room uses: diagnostics, files, the audit log."},
}

const maxRooms = 20

// single lists packages with one importer and the reason each is apart.
var single = map[string]string{
	"cmd/console":                "declared commands, help, progress: nothing that knows a model",
	"cmd/mm-native/litertlib":    "binds one native library",
	"cmd/mm-native/ovlib":        "binds one native library",
	"cmd/mm-native/qnnlib":       "binds one native library",
	"core/preprocess/codec":      "decoders of untrusted media, with their libraries",
	"core/quant/panel":           "kernels over packed weights, 1,800 lines",
	"assemble/export/executorch": "one format",
	"assemble/export/tflite":     "one format",
	"assemble/export/openvino":   "one format",
	"builds/pipeline":            "steps and workflows; cmd only prints",
	"eval/metric":                "measures, each held to its reference",
	"internal/notices":           "embeds a generated file; its test is in tools/release",
	"internal/testfiles":         "tests of 30 packages import it",
	"lab/attempt":                "needs engines, which judge must not",
	"lab/device/ssh":             "one transport, with its library",
	"lab/farm/broker":            "the server of jobs, which mm must not link",
	"lab/improve":                "rounds of self-improvement; cmd only prints",
	"onnx/htp/htptest":           "files for tests, written with a library",
	"onnx/sentence":              "writes models of text encoders; modules only join them",
	"onnx/ort":                   "reads one format; modules only convert it",
	"runtimes/hosted":            "three wire formats; cmd only wires",
	"serve/anthropic":            "one wire format",
	"serve/jobs":                 "one protocol; cmd only wires",
	"serve/mcp":                  "one protocol",
	"serve/models":               "loads models; cmd only wires",
	"lab/track":                  "one protocol of tracking",
	"serve/oip":                  "one wire format",
	"serve/otlp":                 "one protocol of traces",
	"serve/ollama":               "one wire format",
	"serve/openai":               "one wire format",
	"skills/algebra":             "one skill",
	"skills/figure":              "two skills that read print with the same letters",
	"skills/sandbox/mcpclient":   "one executor",
	"skills/sandbox/oci":         "one executor",
	"skills/sandbox/python":      "one executor",
	"skills/sandbox/starlark":    "one executor",
	"assemble/pack":              "checkpoints to modules",
}

// maxPackages bounds the number of packages.
const maxPackages = 195

// Rooms import downward only.
func TestRooms(t *testing.T) {
	if len(rooms) > maxRooms {
		t.Errorf("got %d rooms, want at most %d", len(rooms), maxRooms)
	}
	level := map[string]int{}
	for i, r := range rooms {
		level[r.name] = i
	}
	packages := list(t)
	if n := len(packages); n > maxPackages {
		t.Errorf("got %d packages, want at most %d: a new package needs two importers or a reason", n, maxPackages)
	}
	for _, p := range packages {
		name := strings.TrimPrefix(p.ImportPath, module)
		from, ok := level[roomOf(name)]
		if !ok {
			t.Errorf("%s is in no room of the list", name)
			continue
		}
		for _, imp := range p.Imports {
			below, mine := strings.CutPrefix(imp, module)
			if !mine || roomOf(below) == roomOf(name) {
				continue
			}
			if to, ok := level[roomOf(below)]; ok && to < from {
				t.Errorf("%s imports %s, which is in a room above", name, below)
			}
			if room := roomOf(name); (room == "core" || room == "onnx" || room == "train") && roomOf(below) == "internal" && below != "internal/fsx" {
				t.Errorf("%s imports %s: of internal, the numeric rooms use fsx only", name, below)
			}
		}
	}
}

// Package names are unique, and a package with one importer has a reason.
func TestUniqueNames(t *testing.T) {
	seen, importers := map[string]string{}, map[string]int{}
	packages := list(t)
	for _, p := range packages {
		name := strings.TrimPrefix(p.ImportPath, module)
		last := path.Base(name)
		if other, ok := seen[last]; ok {
			t.Errorf("%s and %s have one name", other, name)
		}
		seen[last] = name
		for _, imp := range p.Imports {
			importers[imp]++
		}
	}
	for _, p := range packages {
		name := strings.TrimPrefix(p.ImportPath, module)
		reason, listed := single[name]
		switch n := importers[p.ImportPath]; {
		case n == 1 && !listed:
			t.Errorf("%s has one importer and no reason in the list", name)
		case n != 1 && listed:
			t.Errorf("%s has %d importers: remove it from the list (%s)", name, n, reason)
		}
	}
}

// docs/ARCHITECTURE.md begins with the picture of the rooms and holds the table
// of floors; -update writes both.
func TestArchitecture(t *testing.T) {
	file := filepath.Join(root(t), "docs", "ARCHITECTURE.md")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := data
	for mark, text := range map[string]string{"rooms": picture(t), "floors": floorTable(t)} {
		begin, end := []byte("<!-- "+mark+" -->\n"), []byte("<!-- /"+mark+" -->\n")
		i, j := bytes.Index(want, begin), bytes.Index(want, end)
		if i < 0 || j < i {
			t.Fatalf("docs/ARCHITECTURE.md has no section %s", mark)
		}
		want = slices.Concat(want[:i], begin, []byte(text), want[j:])
	}
	if bytes.Equal(want, data) {
		return
	}
	if !*update {
		t.Fatal("docs/ARCHITECTURE.md is out of date; go test ./internal/repotest -run Architecture -update writes it")
	}
	if err := os.WriteFile(file, want, 0o644); err != nil {
		t.Fatal(err)
	}
}

// picture renders the rooms, each with the rooms it imports, and a sentence for
// each.
func picture(t *testing.T) string {
	t.Helper()
	uses, size := map[string]map[string]bool{}, map[string]int{}
	for _, p := range list(t) {
		from := roomOf(strings.TrimPrefix(p.ImportPath, module))
		size[from]++
		for _, imp := range p.Imports {
			if below, mine := strings.CutPrefix(imp, module); mine && roomOf(below) != from {
				if uses[from] == nil {
					uses[from] = map[string]bool{}
				}
				uses[from][roomOf(below)] = true
			}
		}
	}
	var b strings.Builder
	b.WriteString("```\n" + strings.Repeat(" ", 16) + "imports\n")
	for i, r := range rooms {
		fmt.Fprintf(&b, "%-10s %3d  ", r.name, size[r.name])
		for j, other := range rooms {
			switch {
			case j == i:
				b.WriteString("█")
			case uses[r.name][other.name]:
				b.WriteString("●")
			case j > i:
				b.WriteString("·")
			default:
				b.WriteString(" ")
			}
		}
		b.WriteString("\n")
	}
	b.WriteString("```\n\nEach row is a room with its number of packages; a dot at a column is an import of that column's room, in the same\norder. No dot is left of the diagonal: imports go downward.\n\n")
	for _, r := range rooms {
		fmt.Fprintf(&b, "- `%s` %s\n", r.name, r.does)
	}
	return b.String()
}

// floorTable lists the packages of each room by floor: a package's floor is one
// above the highest floor that it imports.
func floorTable(t *testing.T) string {
	t.Helper()
	imports := map[string][]string{}
	for _, p := range list(t) {
		name := strings.TrimPrefix(p.ImportPath, module)
		imports[name] = nil
		for _, imp := range p.Imports {
			if below, mine := strings.CutPrefix(imp, module); mine {
				imports[name] = append(imports[name], below)
			}
		}
	}
	floor := map[string]int{}
	var compute func(string) int
	compute = func(name string) int {
		if n, ok := floor[name]; ok {
			return n
		}
		n := 0
		for _, below := range imports[name] {
			n = max(n, compute(below)+1)
		}
		floor[name] = n
		return n
	}
	byFloor := map[int][]string{}
	for name := range imports {
		n := compute(name)
		byFloor[n] = append(byFloor[n], "`"+name+"`")
	}
	var b strings.Builder
	b.WriteString("| floor | packages |\n|---|---|\n")
	for n := 0; len(byFloor[n]) > 0; n++ {
		slices.Sort(byFloor[n])
		fmt.Fprintf(&b, "| %d | %s |\n", n, strings.Join(byFloor[n], " "))
	}
	return b.String()
}

// roomOf returns the room of a package.
func roomOf(name string) string {
	room, _, _ := strings.Cut(name, "/")
	return room
}
