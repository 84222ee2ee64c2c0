package diag_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/internal/diag"
)

var update = flag.Bool("update", false, "write docs/DIAGNOSTICS.md")

func sample() diag.List {
	var l diag.List
	l.Add(diag.WidthDiffers, diag.Pos{File: "b.yaml", Line: 7, Col: 3}, "1536 against 2048", "change out_dim")
	l.Warn(diag.NoLicense, diag.Pos{File: "a.yaml", Line: 2, Col: 1}, "x@1.0.0\n::error::forged \x1b[31m", "")
	l.Note(diag.KVMapped, diag.Pos{File: "a.yaml"}, "", "")
	l.Add(diag.WidthDiffers, diag.Pos{File: "b.yaml", Line: 7, Col: 3}, "1536 against 2048", "change out_dim")
	l.Sort()
	return l
}

func TestPrinters(t *testing.T) {
	l := sample()
	for _, tc := range []struct {
		name  string
		print func(*bytes.Buffer) error
		want  string
	}{
		{"text", func(b *bytes.Buffer) error { return l.Text(b) },
			"a.yaml: note MM0506: KV cache type changed\n" +
				"a.yaml:2:1: warning MM0203: missing license: x@1.0.0\\n::error::forged \\x1b[31m\n" +
				"b.yaml:7:3: error MM0305: width differs from the core: 1536 against 2048\n    hint: change out_dim\n"},
		{"github", func(b *bytes.Buffer) error { return l.GitHub(b) },
			"::notice file=a.yaml,line=1,col=1,title=MM0506::KV cache type changed\n" +
				"::warning file=a.yaml,line=2,col=1,title=MM0203::missing license: x@1.0.0%0A::error::forged \x1b[31m\n" +
				"::error file=b.yaml,line=7,col=3,title=MM0305::width differs from the core: 1536 against 2048%0Ahint: change out_dim\n"},
	} {
		var b bytes.Buffer
		if err := tc.print(&b); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(tc.want, b.String()); d != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, d)
		}
	}
}

func TestErr(t *testing.T) {
	var none diag.List
	none.Warn(diag.NoLicense, diag.Pos{}, "", "")
	if none.Err() != nil {
		t.Error("a warning counts as an error")
	}
	err := fmt.Errorf("loading: %w", sample().Err())
	list, ok := diag.From(err)
	if !ok || len(list) != 3 {
		t.Errorf("From(%v) = %v, %v", err, list, ok)
	}
	if _, ok := diag.From(errors.New("plain")); ok {
		t.Error("a plain error contains a list")
	}
}

// The table is sorted and complete; codes are unique.
func TestTable(t *testing.T) {
	src, err := os.ReadFile("codes.go")
	if err != nil {
		t.Fatal(err)
	}
	declared := regexp.MustCompile(`"(MM\d{4})"`).FindAllStringSubmatch(string(src), -1)
	table := diag.Codes()
	if len(declared) != len(table) {
		t.Errorf("%d codes declared, %d explained", len(declared), len(table))
	}
	if !slices.IsSortedFunc(table, func(a, b diag.Entry) int { return strings.Compare(string(a.Code), string(b.Code)) }) {
		t.Error("the table is not sorted")
	}
	for i, e := range table {
		if e.Summary == "" || e.Cause == "" || e.Fix == "" || strings.HasSuffix(e.Summary, ".") {
			t.Errorf("incomplete entry %s: %+v", e.Code, e)
		}
		if i > 0 && table[i-1].Code == e.Code {
			t.Errorf("%s is duplicated", e.Code)
		}
		if e.Code == "MM0507" || e.Code == "MM0804" || e.Code == "MM0903" {
			t.Errorf("%s was removed and must not be used again", e.Code)
		}
		if e.Code.Summary() != e.Summary {
			t.Errorf("%s is not found in the table", e.Code)
		}
	}
}

// docs/DIAGNOSTICS.md is written from the table: go test ./internal/diag -update.
func TestDocument(t *testing.T) {
	const file = "../../docs/DIAGNOSTICS.md"
	var b bytes.Buffer
	if err := diag.Document(&b); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(b.String(), string(have)); d != "" {
		t.Errorf("docs/DIAGNOSTICS.md is out of date; go test ./internal/diag -update writes it:\n%s", d)
	}
}
