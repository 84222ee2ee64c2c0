// Package farm runs commands of mm on several machines, each with exactly one result.
//
// A [Job] is a command with its files by digest; its ID is the digest of its bytes. A
// [Queue] is a client of NATS JetStream: the same code drives the server that mm jobs serve
// starts and a cluster. A submission is repeated until the server has it, a duplicate is
// ignored. A [Worker] takes the jobs whose needs it meets, reports progress while it works,
// and creates the result under the job's ID: the first result stays. The job of a worker that
// dies returns to the queue; a job that fails or kills its workers too often ends with the errors
// of its attempts.
package farm

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"mm-abi.org/mm/schemas"
)

// The limits of a job.
const (
	maxJob      = 256 << 10 // bytes, encoded
	maxFiles    = 4096      // inputs, and outputs
	maxAttempts = 100
)

const jobVersion = 1

// attempts is the number of attempts of a job that states none.
const attempts = 5

// Job is a command of mm with its files, whose paths are relative to the folder in which
// it runs.
type Job struct {
	Version  int               `json:"version"`
	Args     []string          `json:"args"`              // of mm
	Inputs   map[string]string `json:"inputs,omitempty"`  // hex SHA-256 by path
	Outputs  []string          `json:"outputs,omitempty"` // files that the command writes; with a slash at the end: a folder of files
	Needs    []string          `json:"needs,omitempty"`   // of the worker; see Capabilities
	Keep     string            `json:"keep,omitempty"`    // jobs with this name share a folder on a worker. Empty: a new folder
	Home     string            `json:"home,omitempty"`    // folder that replaces the home of mm. Empty: that of the worker
	Attempts int               `json:"attempts,omitempty"`
	Seconds  int               `json:"seconds,omitempty"` // limit of an attempt; 0: none
}

// Result is the one result of a job.
type Result struct {
	Job     string            `json:"job"`               // ID
	Outputs map[string]string `json:"outputs,omitempty"` // hex SHA-256 by path
	Errors  []string          `json:"errors,omitempty"`  // of all attempts: the job failed
	Tail    string            `json:"tail,omitempty"`    // end of the output of the last attempt
	Worker  string            `json:"worker"`
	Attempt int               `json:"attempt"` // deliveries, from 1
	Seconds float64           `json:"seconds"` // of the last attempt
}

// Err returns the error of a job that failed.
func (r Result) Err() error {
	if len(r.Errors) == 0 {
		return nil
	}
	return fmt.Errorf("job %.12s… failed after %d attempts: %s", r.Job, len(r.Errors), r.Errors[len(r.Errors)-1])
}

// maxResult bounds an encoded result, in bytes.
const maxResult = 512 << 10

// encode returns the bytes of a result. A result above the limit is that of a failed job:
// another attempt would be as large.
func (r Result) encode() ([]byte, error) {
	data, err := json.Marshal(r)
	if err == nil && len(data) > maxResult {
		r.Outputs, r.Tail, r.Errors = nil, "", []string{fmt.Sprintf("result: got %d bytes, limit %d", len(data), maxResult)}
		data, err = json.Marshal(r)
	}
	return data, err
}

// decodeResult parses the untrusted result of a job.
func decodeResult(id string, data []byte) (*Result, error) {
	r := &Result{}
	if len(data) > maxResult {
		return nil, final{fmt.Errorf("result of %.12s…: got %d bytes, limit %d", id, len(data), maxResult)}
	}
	if err := json.Unmarshal(data, r); err != nil {
		return nil, final{fmt.Errorf("result of %.12s…: %w", id, err)}
	}
	if r.Job != id {
		return nil, final{fmt.Errorf("result of %.12s…: got that of %.12s…", id, r.Job)}
	}
	for name, sum := range r.Outputs {
		if !digest().MatchString(sum) {
			return nil, final{fmt.Errorf("result of %.12s…: %s: invalid digest %q", id, name, sum)}
		}
	}
	return r, nil
}

// commands lists the commands that a worker executes: those that compute files out of
// files.
var commands = [][]string{{"experiment", "trial"}, {"eval"}, {"data", "build"}, {"assemble"}, {"quantize"}, {"train"}, {"validate"}, {"module", "check"}, {"version"}}

// folder matches names of kept folders.
var folder = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,63}$`) })

// digest matches digests.
var digest = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-f]{64}$`) })

// Encode checks a job and returns its bytes and its ID.
func (j Job) Encode() (data []byte, id string, err error) {
	j.Version = jobVersion
	j.Needs = slices.Compact(slices.Sorted(slices.Values(j.Needs)))
	if err := j.check(); err != nil {
		return nil, "", err
	}
	if data, err = json.Marshal(j); err != nil {
		return nil, "", err
	}
	if len(data) > maxJob {
		return nil, "", fmt.Errorf("job: got %d bytes, limit %d", len(data), maxJob)
	}
	return data, hexSum(data), nil
}

// Decode parses and checks untrusted bytes of a job.
func Decode(data []byte) (Job, error) {
	var j Job
	if len(data) > maxJob {
		return j, fmt.Errorf("job: got %d bytes, limit %d", len(data), maxJob)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&j); err != nil {
		return j, fmt.Errorf("job: %w", err)
	}
	if d.More() {
		return j, errors.New("job: trailing data")
	}
	if j.Version != jobVersion {
		return j, fmt.Errorf("job: version %d, want %d", j.Version, jobVersion)
	}
	return j, j.check()
}

// check reports the first fault of a job.
func (j Job) check() error {
	if err := allowed(j.Args); err != nil {
		return err
	}
	if len(j.Inputs) > maxFiles || len(j.Outputs) > maxFiles {
		return fmt.Errorf("job: got %d inputs and %d outputs, limit %d", len(j.Inputs), len(j.Outputs), maxFiles)
	}
	for name, sum := range j.Inputs {
		if !schemas.ValidPath(name) || !digest().MatchString(sum) {
			return fmt.Errorf("job: invalid input %q %q, want a relative path and a SHA-256", name, sum)
		}
	}
	for _, name := range j.Outputs {
		if !schemas.ValidPath(strings.TrimSuffix(name, "/")) {
			return fmt.Errorf("job: invalid output %q, want a relative path", name)
		}
		if j.Keep != "" && strings.HasSuffix(name, "/") && holds(j.Inputs, name) {
			return fmt.Errorf("job: output %q has inputs in a kept folder, whose older files would be outputs", name)
		}
	}
	if j.Home != "" && !schemas.ValidPath(j.Home) {
		return fmt.Errorf("job: invalid home %q, want a relative path", j.Home)
	}
	if j.Keep != "" && !folder().MatchString(j.Keep) {
		return fmt.Errorf("job: invalid name of a folder %q", j.Keep)
	}
	if j.Attempts < 0 || j.Attempts > maxAttempts || j.Seconds < 0 {
		return fmt.Errorf("job: got %d attempts and %d seconds, want at most %d attempts", j.Attempts, j.Seconds, maxAttempts)
	}
	_, err := parseNeeds(j.Needs)
	return err
}

// allowed reports a command that a worker does not execute, or a path that leaves its
// folder.
func allowed(args []string) error {
	matches := func(c []string) bool { return len(args) >= len(c) && slices.Equal(args[:len(c)], c) }
	if !slices.ContainsFunc(commands, matches) {
		return fmt.Errorf("job: command %q: want one of %s", strings.Join(args[:min(len(args), 2)], " "), commandNames())
	}
	for _, a := range args {
		if slices.ContainsFunc(strings.FieldsFunc(a, func(r rune) bool { return r == '=' || r == ',' }), leaves) {
			return fmt.Errorf("job: argument %q: want paths in the folder of the job", a)
		}
	}
	return nil
}

// drive matches a path of Windows that begins with a drive.
var drive = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z]:`) })

// leaves reports whether a value, as a path on any system, leaves the folder of the job.
func leaves(value string) bool {
	slashed := strings.ReplaceAll(value, `\`, "/")
	return path.IsAbs(slashed) || drive().MatchString(value) || slices.Contains(strings.Split(slashed, "/"), "..") || strings.HasPrefix(value, "~")
}

func commandNames() string {
	names := make([]string, len(commands))
	for i, c := range commands {
		names[i] = strings.Join(c, " ")
	}
	return strings.Join(names, ", ")
}

// limit returns the number of attempts of a job.
func (j Job) limit() int {
	if j.Attempts == 0 {
		return attempts
	}
	return j.Attempts
}

func hexSum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
