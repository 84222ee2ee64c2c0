package schemas_test

import (
	"encoding/json"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/schemas"
)

var update = flag.Bool("update", false, "rewrite golden files")

// The playbook's examples, the source of the contract, validate unchanged.
func TestPlaybookExamples(t *testing.T) {
	n := 0
	err := filepath.WalkDir("testdata/playbook", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Name() == "mm.yaml" {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		doc, list := schemas.Parse(path, data)
		if len(list) > 0 {
			t.Fatalf("%s: %v", path, list)
		}
		kind, ok := doc.Detect()
		if !ok {
			t.Fatalf("%s: not detected", path)
		}
		if list := doc.Validate(kind); len(list) > 0 {
			t.Errorf("%s as %s:\n%v", path, kind, list)
		}
		n++
		return nil
	})
	if err != nil || n != 5 {
		t.Fatalf("checked %d examples, want 5: %v", n, err)
	}
}

// Each faulty document has the diagnostics of its golden file.
func TestFaults(t *testing.T) {
	paths, _ := filepath.Glob("testdata/faults/*.yaml")
	if len(paths) < 8 {
		t.Fatalf("found %d faulty documents", len(paths))
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		doc, list := schemas.Parse(filepath.Base(path), data)
		if doc != nil {
			kind, ok := doc.Detect()
			if !ok {
				t.Fatalf("%s: not detected", path)
			}
			list = append(list, doc.Validate(kind)...)
		}
		var got strings.Builder
		if err := list.Text(&got); err != nil {
			t.Fatal(err)
		}
		golden := strings.TrimSuffix(path, ".yaml") + ".txt"
		if *update {
			if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), got.String()); d != "" {
			t.Errorf("%s (-want +got):\n%s", path, d)
		}
	}
}

// Violations of the strict profile are refused before the schema.
func TestProfile(t *testing.T) {
	deep := strings.Repeat("[", 70) + strings.Repeat("]", 70)
	for _, tc := range []struct {
		name, in string
		code     diag.Code
		line     int
	}{
		{"duplicate", "a: 1\nb: 2\na: 3\n", diag.DuplicateKey, 3},
		{"anchor", "a: &x 1\nb: 2\n", diag.Alias, 1},
		{"alias", "a: &x [1]\nb: *x\n", diag.Alias, 2},
		{"merge", "a: 1\n<<: {b: 2}\n", diag.Alias, 2},
		{"tag", "a: !!binary aGk=\n", diag.Tag, 1},
		{"own tag", "a: !mine x\n", diag.Tag, 1},
		{"two documents", "a: 1\n---\nb: 2\n", diag.ManyDocs, 2},
		{"two documents, second broken", "a: 1\n---\n\t{", diag.Syntax, 3},
		{"broken", "a: [1,\n", diag.Syntax, 1},
		{"empty", "", diag.NotMM, 1},
		{"deep", "a: " + deep, diag.TooLarge, 1},
		{"large", strings.Repeat("#", schemas.MaxBytes+1), diag.TooLarge, 0},
		{"latin-1", "a: 1\nb: \xe9\n", diag.Unreadable, 2},
		{"escape", "a: \"\\e[31mred\"\n", diag.HiddenText, 1},
		{"right to left", "a: x\nb: \"\u202egnp\"\n", diag.HiddenText, 2},
		{"hidden key", "\"a\\e\": 1\n", diag.HiddenText, 1},
		{"no-break space", "a: 1\nb:\u00a0\n c: 2\nd: 3\n", diag.Syntax, 2},
		{"indented by a no-break space", "a:\n  b: 1\n\u00a0 c: 2\nd: 3\n", diag.HiddenText, 3},
		{"fullwidth colon", "a: 1\nb\uff1a 2\nc: 3\n", diag.Syntax, 2},
		{"conflict", "a: 1\n<<<<<<< HEAD\nb: 1\n=======\nb: 2\n>>>>>>> other\n", diag.Conflicted, 2},
		{"end of a conflict", "a: 1\n>>>>>>> other\n", diag.Conflicted, 2},
		{"infinite", "a: .inf\n", diag.OutOfRange, 1},
		{"octal of YAML 1.1", "a: 0300\n", diag.OutOfRange, 1},
		{"octal, negative", "a: -010\n", diag.OutOfRange, 1},
		{"octal of one digit", "a: 07\n", diag.OutOfRange, 1},
		{"leading zero", "a: 089\n", diag.OutOfRange, 1},
		{"huge integer", "a: 123456789012345678901234567890\n", diag.OutOfRange, 1},
		{"billion laughs", "a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\n", diag.Alias, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if doc, list := schemas.Load(schemas.Graph, "x.yaml", []byte(tc.in)); doc != nil || !list.Failed() {
				t.Fatalf("accepted: %v", list)
			}
			_, list := schemas.Parse("x.yaml", []byte(tc.in))
			found := false
			for _, d := range list {
				found = found || d.Code == tc.code && d.Pos.Line == tc.line
			}
			if !found {
				t.Errorf("no %s on line %d in %v", tc.code, tc.line, list)
			}
		})
	}
}

func TestEncodeRoundTrip(t *testing.T) {
	type item struct {
		Name string   `json:"name"`
		Tags []string `json:"tags"`
		When string   `json:"when"`
	}
	in := []item{{"a", []string{"1.0", "true", "x: y"}, "2027-06-01"}, {"b", nil, "~"}}
	b, err := schemas.Encode(map[string]any{"items": in})
	if err != nil {
		t.Fatal(err)
	}
	doc, list := schemas.Parse("x.yaml", b)
	if doc == nil {
		t.Fatalf("%v\n%s", list, b)
	}
	var out struct {
		Items []item `json:"items"`
	}
	if err := doc.Decode(&out); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(in, out.Items); d != "" {
		t.Errorf("(-want +got):\n%s\n%s", d, b)
	}
}

func TestEncodeBlanks(t *testing.T) {
	blanks := []string{"", "\n", "\n\n", "\n\n\n", " ", "\t", "\r", "\u0085", "\u2028", "\ufeff", "\x00", "\x1b", "  \n", "\n  "}
	for _, before := range blanks {
		for _, middle := range []string{"", "a", "a\nb", "a\n\n  b", "a\n \nb", "a\n\tb", "a\u0085b", "a \nb", "a\r\nb", "<image>", "#x", "- x", "a: b"} {
			for _, after := range blanks {
				in := map[string]any{"text": before + middle + after, "list": []any{before + middle, middle + after}}
				b, err := schemas.Encode(in)
				if err != nil {
					t.Fatalf("%q: %v", in, err)
				}
				doc, list := schemas.Parse("x.yaml", b)
				if doc == nil {
					t.Errorf("%q: %v\n%s", in, list, b)
					continue
				}
				var out map[string]any
				if err := doc.Decode(&out); err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(in, out); d != "" {
					t.Errorf("(-want +got):\n%s\n%s", d, b)
				}
			}
		}
	}
}

func TestParseLimits(t *testing.T) {
	for in, want := range map[string]int64{"1": 1000, "500m": 500, "0.25": 250, "2.5": 2500} {
		if got, ok := schemas.ParseCPU(in); !ok || got != want {
			t.Errorf("ParseCPU(%q) = %d, %v", in, got, ok)
		}
	}
	for in, want := range map[string]int64{"512Mi": 512 << 20, "1Gi": 1 << 30, "64": 64, "5k": 5000} {
		if got, ok := schemas.ParseMem(in); !ok || got != want {
			t.Errorf("ParseMem(%q) = %d, %v", in, got, ok)
		}
	}
	for _, in := range []string{"", "-1", "0", "1e3", "m", "1.2.3", "99999999999"} {
		if n, ok := schemas.ParseCPU(in); ok {
			t.Errorf("ParseCPU(%q) = %d", in, n)
		}
	}
	for _, in := range []string{"", "-1Mi", "0", "1Ti", "999999999999Gi"} {
		if n, ok := schemas.ParseMem(in); ok {
			t.Errorf("ParseMem(%q) = %d", in, n)
		}
	}
}

func TestValidPath(t *testing.T) {
	for _, ok := range []string{"a", "a/b.onnx", "vision_enc.onnx", ".hidden", "a..b", ".gitattributes", "a.git", "a~", "a-b", ".mmx"} {
		if !schemas.ValidPath(ok) {
			t.Errorf("%q refused", ok)
		}
	}
	for _, bad := range []string{"", "/a", "../a", "a/../b", "a//b", "a/", `a\b`, "C:x", "a\x00b", "nul", "COM1.txt", "a/con", "a.", "./a", "~", "~/x", "a/~b", "-rf", "a/-x", ".git/hooks/x", "a/.GIT/x", "git~1/x", ".hg/x", ".ssh/x", ".vscode/x", ".mm/x", ".mm-checkout/x", strings.Repeat("a", 256)} {
		if schemas.ValidPath(bad) {
			t.Errorf("%q accepted", bad)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/faults/*.yaml", "testdata/playbook/*/*.yaml", "testdata/playbook/*.yaml"} {
		paths, _ := filepath.Glob(pattern)
		for _, p := range paths {
			b, _ := os.ReadFile(p)
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		doc, list := schemas.Parse("fuzz.yaml", data)
		if doc == nil {
			if !list.Failed() {
				t.Fatal("no document and no fault")
			}
			return
		}
		for _, kind := range []schemas.Kind{schemas.Module, schemas.Graph, schemas.Lock, schemas.Config, schemas.Trust, schemas.Request, schemas.Train, schemas.Stage, schemas.Plan, schemas.Decoding, schemas.Preference, schemas.Improvement, schemas.Suite, schemas.Budgets, schemas.Dataset, schemas.Study, schemas.Jobs} {
			for _, d := range doc.Validate(kind) {
				if d.Pos.File == "" || d.Summary == string(d.Code) {
					t.Fatalf("diagnostic without a place or words: %+v", d)
				}
			}
		}
		var v any
		if err := doc.Decode(&v); err != nil {
			t.Fatal(err)
		}
		if _, err := json.Marshal(v); err != nil {
			t.Fatal(err)
		}
	})
}

// The position of a syntax error is the line that breaks the document, not the one where
// the parser fails.
func TestSyntaxPlace(t *testing.T) {
	head := "name: x\nversion: 1.0.0\ntype: encoder\ninputs:\n  - name: image\n    shape: [3,\n      224,\n      224]\n    dtype: fp16\n"
	for _, tc := range []struct {
		name, tail string
		line, col  int
		hint       string
	}{
		{"tab", "outputs:\n\t- name: y\nlicense: MIT\n", 11, 1, "blanks"},
		{"tab after blanks", "outputs:\n  \t- name: y\nlicense: MIT\n", 11, 3, "blanks"},
		{"open bracket", "more: [224, 224, 3\nlicense: MIT\nother: 1\nlast: 2\n", 10, 1, "close the ["},
		{"open brace", "more: {a: 1\nlicense: MIT\nother: 1\n", 10, 1, "close the {"},
		{"open quote", "more: \"abc\nlicense: MIT\nother: 1\n", 10, 1, "quote"},
		{"indentation", "license: MIT\n other: 1\nlast: 2\n", 11, 2, "indent"},
		{"colon in value", "license: MIT: or so\nlast: 2\n", 10, 1, "quotes"},
		{"at sign", "license: @mit\nlast: 2\n", 10, 1, "quotes"},
		{"no colon", "license\nlast: 2\n", 10, 1, "KEY: VALUE"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, more := range []string{"", strings.Repeat("# a line\nk: [1,\n 2]\n", 200)} {
				_, list := schemas.Parse("x.yaml", []byte(strings.Replace(head, "name: x\n", "name: x\n"+more, 1)+tc.tail))
				if len(list) != 1 || list[0].Code != diag.Syntax {
					if more != "" && len(list) > 0 && list[0].Code == diag.DuplicateKey {
						continue
					}
					t.Fatalf("got %v", list)
				}
				want := tc.line + strings.Count(more, "\n")
				if p := list[0].Pos; p.Line != want || p.Col != tc.col {
					t.Errorf("at %d:%d, want %d:%d: %v", p.Line, p.Col, want, tc.col, list[0])
				}
				if !strings.Contains(list[0].Hint, tc.hint) {
					t.Errorf("hint %q does not hold %q", list[0].Hint, tc.hint)
				}
			}
		})
	}
}

// A violation of the profile does not hide other faults.
func TestAllFaultsBesideProfile(t *testing.T) {
	in := "name: Bad Name\nversion: 1.0\nversion: 1.0.0\ntype: encoder\nabi: &a mm-abi-1.0\nlicense: !x MIT\ncolour: red\n"
	doc, list := schemas.Load(schemas.Module, "module.yaml", []byte(in))
	if doc != nil {
		t.Fatal("a document that violates the profile was returned")
	}
	got := map[diag.Code]int{}
	for _, d := range list {
		got[d.Code]++
	}
	want := map[diag.Code]int{diag.DuplicateKey: 1, diag.Alias: 1, diag.Tag: 1, diag.WrongForm: 1, diag.WrongType: 1, diag.UnknownKey: 1, diag.MissingKey: 3}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s\n%v", d, list)
	}
}

// Messages quote the file, and hints are correct.
func TestHints(t *testing.T) {
	base := "name: x\nversion: 1.0.0\ntype: encoder\nmodality: image\nabi: mm-abi-1.0\nlicense: MIT\n"
	for _, tc := range []struct{ name, in, want, not string }{
		{"abi as number", strings.Replace(base, "mm-abi-1.0", "1.0", 1), "the number 1.0", `"1"`},
		{"abi advice", strings.Replace(base, "mm-abi-1.0", "1.0", 1), "mm-abi-1.0", "in quotes"},
		{"version as number", strings.Replace(base, "1.0.0", "1.10", 1), "the number 1.10", "1.1,"},
		{"dimension", base + "inputs:\n  - {name: a, shape: [3.5], dtype: fp16}\n", "An integer", "in quotes"},
		{"digest of zeros", base + "files:\n  - {path: a, size: 1, sha256: " + strings.Repeat("0", 64) + "}\n", `quotes: "` + strings.Repeat("0", 64), `write "0"`},
		{"short digest", base + "files:\n  - {path: a, size: 1, sha256: abc}\n", "64 lower-case hex digits", "^["},
		{"u8", base + "inputs:\n  - {name: a, shape: [3], dtype: u8}\n", "uint8", "fp8\"?"},
		{"look-alike", strings.Replace(base, "name: x", "name: my-\u0435nc", 1), `my-\u0435nc`, "\u0435"},
		{"large", strings.Replace(base, "type: encoder", "type: projector", 1) + "params: {d_model: 9999999999}\n", "1048576", "e+06"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, list := schemas.Load(schemas.Module, "module.yaml", []byte(tc.in))
			var b strings.Builder
			if err := list.Text(&b); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(b.String(), tc.want) || strings.Contains(b.String(), tc.not) {
				t.Errorf("want %q and not %q in\n%s", tc.want, tc.not, b.String())
			}
		})
	}
}

// Each pattern has a description, which serves as the hint.
func TestPatternsHaveWords(t *testing.T) {
	entries, err := fs.Glob(schemas.FS(), "*.json")
	if err != nil || len(entries) == 0 {
		t.Fatal(err)
	}
	var walk func(file string, v any)
	walk = func(file string, v any) {
		switch v := v.(type) {
		case map[string]any:
			if p, ok := v["pattern"].(string); ok && v["description"] == nil {
				t.Errorf("%s: the pattern %s has no description", file, p)
			}
			for _, c := range v {
				walk(file, c)
			}
		case []any:
			for _, c := range v {
				walk(file, c)
			}
		}
	}
	for _, e := range entries {
		data, err := fs.ReadFile(schemas.FS(), e)
		if err != nil {
			t.Fatal(err)
		}
		var v any
		if err := json.Unmarshal(data, &v); err != nil {
			t.Fatal(err)
		}
		walk(e, v)
	}
}

// Integers that every reader of YAML takes for the same number are accepted.
func TestIntegers(t *testing.T) {
	for in, want := range map[string]float64{"300": 300, "0": 0, "-0": 0, "+7": 7, "1_000": 1000, "0o454": 300, "0x12c": 300, "0b11": 3} {
		var v struct{ A float64 }
		doc, list := schemas.Parse("x.yaml", []byte("a: "+in+"\n"))
		if doc == nil {
			t.Errorf("%s: %v", in, list)
		} else if err := doc.Decode(&v); err != nil || v.A != want {
			t.Errorf("%s is %v, want %v: %v", in, v.A, want, err)
		}
	}
}

// Alternatives, each of which lacks a key, are one fault.
func TestAlternatives(t *testing.T) {
	doc, _ := schemas.Parse("b.yaml", []byte("version: 1\n"))
	list := doc.Validate(schemas.Budgets)
	if want := `one of ["latency" "memory" "size" "quality"] in the document`; len(list) != 1 || list[0].Code != diag.MissingKey || list[0].Detail != want {
		t.Errorf("got %v, want %s", list, want)
	}
}

// A name that is too long has one fault.
func TestLongName(t *testing.T) {
	for length, want := range map[int]int{128: 0, 129: 1} {
		doc, _ := schemas.Parse("g", []byte("name: "+strings.Repeat("a", length)+"\nversion: 0.1.0\ncore: {llm: {ref: a@^1}}\nexports: {x: {gguf: {quant: fp16}}}\n"))
		var found diag.List
		for _, d := range doc.Validate(schemas.Graph) {
			if d.Pos.Line == 1 {
				found = append(found, d)
			}
		}
		if len(found) != want || want == 1 && found[0].Code != diag.OutOfRange {
			t.Errorf("%d characters: %v", length, found)
		}
	}
}
