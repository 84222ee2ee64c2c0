package dashboard

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mm-abi.org/mm/eval"
	"mm-abi.org/mm/eval/suite"
	"mm-abi.org/mm/workspace"
)

// A folder has results, budgets or both; one with neither is a fault.
func TestCollect(t *testing.T) {
	w, err := workspace.Open(workspace.Options{Home: t.TempDir(), Offline: true})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	dir := t.TempDir()
	none, budgets := filepath.Join(dir, "none"), filepath.Join(dir, "budgets")
	if err := os.Mkdir(none, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := (eval.Report{Source: suite.Source{Digest: "d"}, Rows: []eval.Row{{Budget: "b"}}}).Write(budgets); err != nil {
		t.Fatal(err)
	}
	in, err := Collect(t.Context(), w, Options{Results: []string{budgets}})
	if err != nil || len(in.Budgets) != 1 || in.Runs != nil {
		t.Errorf("got %+v, %v", in, err)
	}
	if _, err := Collect(t.Context(), w, Options{Results: []string{none}}); err == nil || !strings.Contains(err.Error(), "MM1414") {
		t.Errorf("got %v", err)
	}
	if err := os.WriteFile(filepath.Join(none, eval.ReportFile), []byte("["), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Collect(t.Context(), w, Options{Results: []string{none}}); err == nil || !strings.Contains(err.Error(), "budgets.json") {
		t.Errorf("got %v", err)
	}
	table := filepath.Join(dir, "compat.csv")
	const header = "build,core,core_version,module,version,type,abi,result,digest\n"
	for name, size := range map[string]int{"maxCompat": maxCompat, "over maxCompat": maxCompat + 1} {
		if err := os.WriteFile(table, []byte(header+strings.Repeat("\n", size-len(header))), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Collect(t.Context(), w, Options{Compat: table}); (err == nil) != (size == maxCompat) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := Collect(t.Context(), w, Options{Refs: []string{"absent:1.0.0"}}); err == nil {
		t.Error("got no error for an absent version")
	}
}
