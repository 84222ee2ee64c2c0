package pipeline_test

import (
	"bytes"
	"encoding/xml"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/builds/pipeline"
)

var update = flag.Bool("update", false, "rewrite the workflows in testdata")

// TestMain plays mm: a command named fail exits with 5.
func TestMain(m *testing.M) {
	if os.Getenv("PLAY_MM") == "" || len(os.Args) < 2 {
		os.Exit(m.Run())
	}
	fmt.Println("mm", strings.Join(os.Args[1:], " "))
	if os.Args[1] == "fail" {
		fmt.Fprintln(os.Stderr, "::error::`x`\x1b[31m")
		os.Exit(5)
	}
}

// repository returns a folder with a graph of two targets and, with a budget, its
// limits.
func repository(t *testing.T, budget bool) string {
	t.Helper()
	root := t.TempDir()
	write := func(name, text string) {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("builds/p.graph.yaml", `name: p
version: 1.2.0+x
core:
  llm: {ref: core-llm@1}
exports:
  phone: {platform: android/arm64, qnn: {options: {soc: SM8750}}}
  laptop: {platform: linux/amd64, gguf: {quant: int8}}
golden:
  - {prompt: "a", expect: "b"}
`)
	if budget {
		write("builds/budgets.yaml", "version: 1\n")
	}
	return root
}

func TestSteps(t *testing.T) {
	for _, c := range []struct {
		name   string
		opt    pipeline.Options
		budget bool
		want   string
	}{
		{"module", pipeline.Options{Kind: "module", Path: "catalog/enc"}, false, "mm validate --files --strict --format text catalog/enc\nmm module check catalog/enc\n"},
		{"build", pipeline.Options{Kind: "build", Path: "builds/p.graph.yaml", Format: "github"}, false, `mm validate --format github builds/p.graph.yaml
mm lock --check builds/p.graph.yaml
mm assemble builds/p.graph.yaml --locked --out dist
mm run builds/p.graph.yaml --smoke --target laptop
mm sbom dist --target laptop > sbom-laptop.cdx.json
mm sbom dist --target phone > sbom-phone.cdx.json
`},
		{"published", pipeline.Options{Kind: "build", Path: "builds/p.graph.yaml", Registry: "r.example:5000/team/p", Key: "k.pem", Public: "k.pub", Out: "out/b"}, true, `mm validate --format text builds/p.graph.yaml
mm lock --check builds/p.graph.yaml
mm assemble builds/p.graph.yaml --locked --out out/b
mm run builds/p.graph.yaml --smoke --target laptop
mm eval budget builds/budgets.yaml out/b
mm sbom out/b --target laptop > out/sbom-laptop.cdx.json
mm sbom out/b --target phone > out/sbom-phone.cdx.json
mm sign out/b --key k.pem
mm attest out/b --type sbom --key k.pem
mm attest out/b --type provenance --key k.pem
mm push out/b r.example:5000/team/p
mm verify --remote r.example:5000/team/p:1.2.0_x --require sbom,provenance --key k.pub
`},
		{"keyless", pipeline.Options{Kind: "build", Path: "builds/p.graph.yaml", Registry: "r.example/team/p", Services: "sc.json", Root: "root.json", Trust: "trust.yaml"}, false, `mm validate --format text builds/p.graph.yaml
mm lock --check builds/p.graph.yaml
mm assemble builds/p.graph.yaml --locked --out dist
mm run builds/p.graph.yaml --smoke --target laptop
mm sbom dist --target laptop > sbom-laptop.cdx.json
mm sbom dist --target phone > sbom-phone.cdx.json
mm sign dist --keyless --signing-config sc.json --trusted-root root.json
mm attest dist --type sbom --keyless --signing-config sc.json --trusted-root root.json
mm attest dist --type provenance --keyless --signing-config sc.json --trusted-root root.json
mm push dist r.example/team/p
mm verify --remote r.example/team/p:1.2.0_x --require sbom,provenance --trust trust.yaml
`},
		{"promotion", pipeline.Options{Kind: "promotion", Path: "builds/p.graph.yaml", Registry: "r.example/team/p", Trust: "trust.yaml", Key: "k.pem"}, false, `mm verify --remote r.example/team/p:1.2.0_x --require sbom --trust trust.yaml
mm promote r.example/team/p:1.2.0_x --to staging --trust trust.yaml --key k.pem
mm verify --remote r.example/team/p:1.2.0_x --require sbom,provenance --trust trust.yaml
mm promote r.example/team/p:1.2.0_x --to candidate --trust trust.yaml --key k.pem
mm verify --remote r.example/team/p:1.2.0_x --require sbom,provenance,eval --trust trust.yaml
mm promote r.example/team/p:1.2.0_x --to prod --trust trust.yaml --key k.pem
`},
	} {
		steps, err := pipeline.Steps(repository(t, c.budget), c.opt)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var got strings.Builder
		for _, s := range steps {
			for _, one := range s.Commands {
				got.WriteString(one.String() + "\n")
			}
		}
		if d := cmp.Diff(c.want, got.String()); d != "" {
			t.Errorf("%s (-want +got)\n%s", c.name, d)
		}
	}
}

// Values that a workflow or a shell would read as code are refused.
func TestHostile(t *testing.T) {
	root := repository(t, false)
	for _, o := range []pipeline.Options{
		{Kind: "x", Path: "a"}, {Kind: "module"}, {Kind: "module", Path: "/a"}, {Kind: "module", Path: "../a"}, {Kind: "module", Path: "a/.."}, {Kind: "module", Path: "-a"},
		{Kind: "module", Path: "a", Registry: "r.example/x"}, {Kind: "module", Path: "$(touch x)"}, {Kind: "module", Path: "a\nb"}, {Kind: "module", Path: "${{ github.token }}"},
		{Kind: "promotion", Path: "builds/p.graph.yaml", Registry: "r.example/x"}, {Kind: "promotion", Path: "builds/p.graph.yaml", Trust: "t"}, {Kind: "build", Path: "builds/p.graph.yaml", Trust: "t"},
		{Kind: "promotion", Path: "builds/p.graph.yaml", Registry: "r.example/x", Trust: "t x"}, {Kind: "build", Path: "builds/p.graph.yaml", Registry: "r;x"}, {Kind: "build", Path: "builds/p.graph.yaml", Public: "a b"}, {Kind: "build", Path: "none.graph.yaml"}, {Kind: "build", Path: "builds"},
		{Kind: "build", Path: "builds/p.graph.yaml", Registry: "r.example/x", Services: "s", Trust: "t"}, {Kind: "build", Path: "builds/p.graph.yaml", Registry: "r.example/x", Root: "r"},
		{Kind: "build", Path: "builds/p.graph.yaml", Registry: "r.example/x", Services: "s", Root: "r"}, {Kind: "build", Path: "builds/p.graph.yaml", Services: "s", Root: "r", Trust: "t"},
		{Kind: "build", Path: "builds/p.graph.yaml", Registry: "r.example/x", Services: "s", Root: "r", Trust: "t", Key: "k"}, {Kind: "build", Path: "builds/p.graph.yaml", Registry: "r.example/x", Services: "s", Root: "r", Trust: "t", Public: "k"},
		{Kind: "build", Path: "builds/p.graph.yaml", Registry: "r.example/x", Services: "$(s)", Root: "r", Trust: "t"}, {Kind: "build", Path: "builds/p.graph.yaml", Registry: "r.example/x", Services: "s", Root: "r r", Trust: "t"},
		{Kind: "promotion", Path: "builds/p.graph.yaml", Registry: "r.example/x", Services: "s", Root: "r", Trust: "t"}, {Kind: "module", Path: "a", Services: "s", Root: "r", Trust: "t"},
	} {
		if _, err := pipeline.Steps(root, o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
	good := pipeline.Options{Kind: "module", Path: "a"}
	for _, o := range []pipeline.WorkflowOptions{
		{Options: good, Provider: "jenkins", Version: "v1.0.0"}, {Options: good, Provider: "github", Version: "latest"}, {Options: good, Provider: "github", Version: "v1.0.0;x"}, {Options: good, Provider: "gitlab", Version: "v1.0.0", Image: "a b"},
	} {
		if _, err := pipeline.Workflows(root, o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}

// The workflows of every provider are those in testdata, which make workflows judges.
func TestWorkflows(t *testing.T) {
	root := repository(t, false)
	for _, provider := range pipeline.Providers() {
		for kind, opt := range map[string]pipeline.Options{
			"module":    {Kind: "module", Path: "catalog/enc"},
			"build":     {Kind: "build", Path: "builds/p.graph.yaml"},
			"promotion": {Kind: "promotion", Path: "builds/p.graph.yaml", Registry: "r.example/team/p", Trust: "trust.yaml"},
			"published": {Kind: "build", Path: "builds/p.graph.yaml", Registry: "r.example/team/p", Public: "release.pub"},
			"keyless":   {Kind: "build", Path: "builds/p.graph.yaml", Registry: "r.example/team/p", Services: "ci/signing_config.json", Root: "ci/trusted_root.json", Trust: "ci/trust.yaml"},
		} {
			if provider == "azure" && opt.Keyless() {
				if _, err := pipeline.Workflows(root, pipeline.WorkflowOptions{Options: opt, Provider: provider, Version: "v0.3.0"}); err == nil || !strings.Contains(err.Error(), "AzureADTokenExchange") {
					t.Errorf("azure without a key: %v", err)
				}
				continue
			}
			files, err := pipeline.Workflows(root, pipeline.WorkflowOptions{Options: opt, Provider: provider, Version: "v0.3.0"})
			if err != nil || len(files) == 0 {
				t.Fatalf("%s %s: %d files, %v", provider, kind, len(files), err)
			}
			dir := filepath.Join("testdata", provider+"-"+kind)
			if *update {
				if err := os.MkdirAll(dir, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			for _, f := range files {
				golden := filepath.Join(dir, filepath.Base(f.Path))
				if *update {
					if err := os.WriteFile(golden, f.Data, 0o644); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(golden)
				if err != nil || !bytes.Equal(want, f.Data) {
					t.Errorf("%s differs from %s, %v (-update rewrites it)", f.Path, golden, err)
				}
			}
			out := t.TempDir()
			if err := pipeline.Write(out, files, false); err != nil {
				t.Error(err)
			}
			if err := pipeline.Write(out, files, false); err == nil || !strings.Contains(err.Error(), "--force") {
				t.Errorf("existing files: %v", err)
			}
			if err := pipeline.Write(out, files, true); err != nil {
				t.Error(err)
			}
		}
	}
}

// A failure ends the run, with its exit code, and is reported.
func TestRun(t *testing.T) {
	t.Setenv("PLAY_MM", "1")
	root := t.TempDir()
	steps := []pipeline.Step{
		{Name: "one", Title: "first", Commands: []pipeline.Command{{Args: []string{"a"}, Out: "out.txt"}}},
		{Name: "two", Title: "second", Commands: []pipeline.Command{{Args: []string{"b"}}, {Args: []string{"fail"}}, {Args: []string{"c"}}}},
		{Name: "three", Title: "third", Commands: []pipeline.Command{{Args: []string{"d"}}}},
	}
	var out bytes.Buffer
	results := pipeline.Run(t.Context(), steps, pipeline.RunOptions{Program: os.Args[0], Root: root, Output: &out})
	if len(results) != 2 || !results[0].Passed() || results[1].Passed() || results[1].Code != 5 {
		t.Fatalf("got %+v", results)
	}
	if got := out.String(); !strings.Contains(got, "mm b\nmm fail\n") || strings.Contains(got, "mm c") || strings.Contains(got, "mm d") {
		t.Errorf("output %q", got)
	}
	if data, err := os.ReadFile(filepath.Join(root, "out.txt")); err != nil || string(data) != "mm a\n" {
		t.Errorf("out.txt is %q, %v", data, err)
	}
	summary := pipeline.Summary(steps, results)
	for _, want := range []string{"| one | first | passed |", "| two | second | **failed**, exit code 5 |", "| three | third | not run |", "    ::error::`x`"} {
		if !strings.Contains(summary, want) {
			t.Errorf("no %q in\n%s", want, summary)
		}
	}
	if strings.Contains(summary, "\x1b") {
		t.Error("an escape sequence in the summary")
	}
	junit, report := filepath.Join(root, "r.xml"), filepath.Join(root, "s.md")
	for range 2 {
		if err := pipeline.Report("build", steps, results, junit, report); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(junit)
	var suite struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
	}
	if err == nil {
		err = xml.Unmarshal(data, &suite)
	}
	if err != nil || suite.Tests != 2 || suite.Failures != 1 {
		t.Errorf("%+v, %v\n%s", suite, err, data)
	}
	if data, err := os.ReadFile(report); err != nil || strings.Count(string(data), "### mm ci run build") != 2 {
		t.Errorf("the summary is not appended: %v\n%s", err, data)
	}
	if r := pipeline.Run(t.Context(), steps, pipeline.RunOptions{Program: filepath.Join(root, "none"), Root: root}); len(r) != 1 || r[0].Err == nil {
		t.Errorf("a missing program: %+v", r)
	}
	if _, err := pipeline.Select(steps, []string{"two, one", "four"}); err == nil || !strings.Contains(err.Error(), `unknown step "four", want one of one, two, three`) {
		t.Errorf("an unknown step: %v", err)
	}
	if got, err := pipeline.Select(steps, []string{"two, one"}); err != nil || len(got) != 2 || got[0].Name != "two" {
		t.Errorf("got %+v, %v", got, err)
	}
}

// With suites next to the graph, a build is measured, and each result is signed.
func TestSuites(t *testing.T) {
	root := repository(t, false)
	if err := os.Mkdir(filepath.Join(root, "builds", "suites"), 0o755); err != nil {
		t.Fatal(err)
	}
	steps, err := pipeline.Steps(root, pipeline.Options{Kind: "build", Path: "builds/p.graph.yaml", Registry: "r.example/p", Key: "k"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range steps {
		for _, c := range s.Commands {
			if s.Name == "eval" || s.Name == "attest" || s.Name == "verify" {
				got = append(got, c.String())
			}
		}
	}
	want := []string{
		"mm eval suite dist builds/suites --target laptop --out results-laptop",
		"mm attest dist --type sbom --key k", "mm attest dist --type provenance --key k", "mm attest dist --eval results-laptop --key k",
		"mm verify --remote r.example/p:1.2.0_x --require sbom,provenance", // the phone is not measured here
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}
