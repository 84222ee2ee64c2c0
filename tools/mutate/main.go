// Command mutate changes one expression of the program at a time and runs the
// tests of its package: a mutant that passes them is a condition that no test
// holds.
//
//	go run ./tools/mutate                          # every mutant of the list
//	go run ./tools/mutate -pkg lab/chain           # those of a package and below
//	go run ./tools/mutate -generate 10 lab/chain   # prints new lines for the list
//
// The list (mutants.txt) has a mutant a line, with tabs between: file, function,
// expression, replacement, and optionally further packages to test or
// "equivalent: REASON" for a mutant that no test can kill. Files are replaced by
// the -overlay of go test; the tree is not changed.
package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	list := flag.String("list", "tools/mutate/mutants.txt", "the list of mutants")
	pkg := flag.String("pkg", "", "run only mutants of this package and those below")
	generate := flag.Int("generate", 0, "print this many mutants of the package that is the argument")
	want := flag.Float64("want", 0.9, "fail if a smaller share is killed")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	if *generate > 0 {
		err = printMutants(flag.Arg(0), *generate)
	} else {
		err = runList(ctx, *list, *pkg, *want)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

// printMutants prints n mutants of a package, the same ones at each call.
func printMutants(pkg string, n int) error {
	files, err := filepath.Glob(filepath.Join(pkg, "*.go"))
	if err != nil {
		return err
	}
	var all []mutant
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		found, err := mutants(filepath.ToSlash(file))
		if err != nil {
			return err
		}
		all = append(all, found...)
	}
	slices.SortFunc(all, func(a, b mutant) int { return cmp.Compare(a.hash(), b.hash()) })
	all = slices.Compact(all)
	for _, m := range all[:min(n, len(all))] {
		fmt.Println(m.line())
	}
	return nil
}

// mutant is one change of one function.
type mutant struct {
	file, function, old, new string
	extra                    string // further packages, or "equivalent: REASON"
}

func (m mutant) line() string {
	return strings.TrimRight(strings.Join([]string{m.file, m.function, m.old, m.new, m.extra}, "\t"), "\t")
}

func (m mutant) hash() uint64 {
	h := fnv.New64a()
	h.Write([]byte(m.line()))
	return h.Sum64()
}

// equivalent returns the reason why no test can kill m, or "".
func (m mutant) equivalent() string {
	reason, ok := strings.CutPrefix(m.extra, "equivalent: ")
	if !ok {
		return ""
	}
	return reason
}

// packages returns the packages whose tests are run.
func (m mutant) packages() []string {
	return append([]string{"./" + path.Dir(m.file)}, strings.Fields(m.extra)...)
}

func readList(file string) ([]mutant, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []mutant
	for s := bufio.NewScanner(f); s.Scan(); {
		if s.Text() == "" || strings.HasPrefix(s.Text(), "#") {
			continue
		}
		part := append(strings.Split(s.Text(), "\t"), "")
		if len(part) < 5 {
			return nil, fmt.Errorf("%s: bad line %q", file, s.Text())
		}
		all = append(all, mutant{part[0], part[1], part[2], part[3], part[4]})
	}
	return all, nil
}

// runList runs the mutants below pkg and reports the share that tests kill.
func runList(ctx context.Context, file, pkg string, want float64) error {
	all, err := readList(file)
	if err != nil {
		return err
	}
	counts := map[string]int{}
	for _, m := range all {
		if dir := path.Dir(m.file); pkg != "" && dir != pkg && !strings.HasPrefix(dir, pkg+"/") {
			continue
		}
		verdict, detail := "equivalent", m.equivalent()
		if detail == "" {
			if verdict, err = m.run(ctx); err != nil {
				return err
			}
		}
		counts[verdict]++
		fmt.Printf("%-10s %s %s: %s → %s %s\n", verdict, m.file, m.function, m.old, m.new, detail)
	}
	judged := counts["killed"] + counts["survived"]
	if judged == 0 {
		return errors.New("no mutant was run")
	}
	share := float64(counts["killed"]) / float64(judged)
	fmt.Printf("%d of %d killed (%.0f %%), %d equivalent, %d stale, %d do not compile\n",
		counts["killed"], judged, 100*share, counts["equivalent"], counts["stale"], counts["invalid"])
	if share < want || counts["stale"] > 0 {
		return fmt.Errorf("%.2f of the mutants are killed, want %.2f; %d lines are stale", share, want, counts["stale"])
	}
	return nil
}

// run tests one mutant: killed, survived, stale (the expression is gone) or
// invalid (the mutant does not compile).
func (m mutant) run(ctx context.Context) (string, error) {
	source, ok, err := m.apply()
	if err != nil || !ok {
		return "stale", err
	}
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	original, err := filepath.Abs(m.file)
	if err != nil {
		return "", err
	}
	changed, overlay := filepath.Join(dir, "mutant.go"), filepath.Join(dir, "overlay.json")
	text, err := json.Marshal(map[string]any{"Replace": map[string]string{original: changed}})
	if err != nil {
		return "", err
	}
	if err := errors.Join(os.WriteFile(changed, source, 0o600), os.WriteFile(overlay, text, 0o600)); err != nil {
		return "", err
	}
	args := append([]string{"test", "-count=1", "-vet=off", "-timeout=120s", "-overlay", overlay}, m.packages()...)
	out, err := exec.CommandContext(ctx, "go", args...).CombinedOutput()
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err == nil:
		return "survived", nil
	case strings.Contains(string(out), "[build failed]"):
		return "invalid", nil
	}
	return "killed", nil
}
