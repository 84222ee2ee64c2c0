package pipeline

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
)

// RunOptions configures [Run].
type RunOptions struct {
	Program string    // mm
	Root    string    // folder of the repository
	Output  io.Writer // receives the output of the commands. Nil: none
	Tell    func(Step, *Result)
}

// Result is the outcome of a step.
type Result struct {
	Step Step
	Code int           // exit code of the command that failed, or 0
	Took time.Duration // of all commands
	Tail string        // last lines of the output
	Err  error         // the command did not run
}

// Passed reports whether every command succeeded.
func (r *Result) Passed() bool { return r.Code == 0 && r.Err == nil }

// tailBytes is the size of the output that a result keeps.
const tailBytes = 4 << 10

// Run runs the steps in order until one fails. It returns the results of those that
// ran.
func Run(ctx context.Context, steps []Step, opt RunOptions) []Result {
	var results []Result
	for _, s := range steps {
		if opt.Tell != nil {
			opt.Tell(s, nil)
		}
		r := step(ctx, s, opt)
		results = append(results, r)
		if opt.Tell != nil {
			opt.Tell(s, &r)
		}
		if !r.Passed() {
			break
		}
	}
	return results
}

// step runs the commands of a step.
func step(ctx context.Context, s Step, opt RunOptions) Result {
	r, start := Result{Step: s}, time.Now()
	tail := &diag.Tail{Limit: tailBytes}
	out := io.Writer(tail)
	if opt.Output != nil {
		out = io.MultiWriter(tail, opt.Output)
	}
	for _, c := range s.Commands {
		if r.Code, r.Err = command(ctx, c, opt, out); !r.Passed() {
			break
		}
	}
	r.Took, r.Tail = time.Since(start), tail.String()
	return r
}

func command(ctx context.Context, c Command, opt RunOptions, out io.Writer) (int, error) {
	cmd := exec.CommandContext(ctx, opt.Program, c.Args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = opt.Root, out, out
	var file bytes.Buffer
	if c.Out != "" {
		cmd.Stdout = &file
	}
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		return exit.ExitCode(), nil
	case err != nil:
		return 0, err
	case c.Out != "":
		return 0, fsx.WriteFile(filepath.Join(opt.Root, filepath.FromSlash(c.Out)), file.Bytes(), 0o644)
	}
	return 0, nil
}

// Summary returns a table of the results in Markdown.
func Summary(steps []Step, results []Result) string {
	var b strings.Builder
	b.WriteString("| step | | result | seconds |\n|---|---|---|---|\n")
	for i, s := range steps {
		result, took := "not run", ""
		if i < len(results) {
			if result = "passed"; !results[i].Passed() {
				result = fmt.Sprintf("**failed**, exit code %d", results[i].Code)
			}
			took = fmt.Sprintf("%.1f", results[i].Took.Seconds())
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", s.Name, s.Title, result, took)
	}
	for _, r := range results {
		if !r.Passed() {
			// An indented block cannot be closed by the output.
			fmt.Fprintf(&b, "\nThe end of the output of %s:\n\n    %s\n", r.Step.Name, strings.ReplaceAll(strings.TrimSpace(r.Tail), "\n", "\n    "))
		}
	}
	return b.String()
}

// JUnit returns the results as JUnit's XML, which the test reports of CI systems read.
func JUnit(kind string, results []Result) ([]byte, error) {
	type failure struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
	type test struct {
		Class   string   `xml:"classname,attr"`
		Name    string   `xml:"name,attr"`
		Time    string   `xml:"time,attr"`
		Failure *failure `xml:"failure,omitempty"`
	}
	suite := struct {
		XMLName  xml.Name `xml:"testsuite"`
		Name     string   `xml:"name,attr"`
		Tests    int      `xml:"tests,attr"`
		Failures int      `xml:"failures,attr"`
		Cases    []test   `xml:"testcase"`
	}{Name: "mm " + kind, Tests: len(results)}
	for _, r := range results {
		c := test{Class: "mm." + kind, Name: r.Step.Name, Time: fmt.Sprintf("%.3f", r.Took.Seconds())}
		if !r.Passed() {
			suite.Failures++
			message := fmt.Sprintf("exit code %d", r.Code)
			if r.Err != nil {
				message = r.Err.Error()
			}
			c.Failure = &failure{message, r.Tail}
		}
		suite.Cases = append(suite.Cases, c)
	}
	out, err := xml.MarshalIndent(suite, "", "  ")
	return append([]byte(xml.Header), append(out, '\n')...), err
}

// Report writes the results to the files that are named: as JUnit's XML, and as a
// table that is appended.
func Report(kind string, steps []Step, results []Result, junit, summary string) error {
	if junit != "" {
		data, err := JUnit(kind, results)
		if err == nil {
			err = fsx.WriteFile(junit, data, 0o644)
		}
		if err != nil {
			return err
		}
	}
	if summary == "" {
		return nil
	}
	d, err := fsx.Open(filepath.Dir(summary), fsx.Options{})
	if err != nil {
		return err
	}
	defer d.Close()
	f, err := d.Append(filepath.Base(summary), 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write([]byte("### mm ci run " + kind + "\n\n" + Summary(steps, results)))
	return errors.Join(err, f.Close())
}

// Row is a result as mm ci run prints it.
type Row struct {
	Step    string  `json:"step"`
	Passed  bool    `json:"passed"`
	Code    int     `json:"code"`
	Seconds float64 `json:"seconds"`
	Error   string  `json:"error,omitempty"`
}

// Rows returns the results of steps as rows, and the failure.
func Rows(steps []Step, results []Result) (list []Row, failed error) {
	for _, r := range results {
		row := Row{Step: r.Step.Name, Passed: r.Passed(), Code: r.Code, Seconds: r.Took.Seconds()}
		if r.Err != nil {
			row.Error, failed = r.Err.Error(), r.Err
		} else if !r.Passed() {
			failed = diag.Exiting(r.Code, fmt.Errorf("step %s failed with exit code %d; %d of %d steps passed", r.Step.Name, r.Code, len(results)-1, len(steps)))
		}
		list = append(list, row)
	}
	return list, failed
}

// Cells returns the cells of a table.
func (r Row) Cells() []string {
	result := "passed"
	if !r.Passed {
		result = fmt.Sprintf("failed (%d)", r.Code)
	}
	return []string{r.Step, result, fmt.Sprintf("%.1f", r.Seconds)}
}
