package device

import (
	"bytes"
	"cmp"
	"context"
	crand "crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/lab/device/evidence"
	"mm-abi.org/mm/lab/device/protocol"
)

// grace is how much longer than the runner's deadline Run waits for it.
const grace = 30 * time.Second

// Run plans, pushes, runs, pulls and checks. Faults of the results are in the error and in
// the record of the outcome; any other error comes without an outcome.
func (d *Device) Run(ctx context.Context, j Job) (*Outcome, error) {
	drawn := j.Nonce == ""
	if drawn {
		j.Nonce = drawNonce()
	}
	if err := checkNonce(j.Nonce); err != nil {
		return nil, err
	}
	p, err := j.Plan(ctx, d)
	if err != nil {
		return nil, err
	}
	if err := p.Faults.Err(); err != nil {
		return nil, err
	}
	r := &running{d: d, j: j, p: p, dir: d.at("runs", j.Nonce), drawn: drawn && len(j.Samples) == 0}
	if err := r.writable(ctx); err != nil {
		return nil, err
	}
	if err := r.inputs(); err != nil {
		return nil, err
	}
	err = r.prepare(ctx)
	var out *Outcome
	if err == nil {
		out, err = r.do(ctx)
	}
	if !j.Keep || r.begun == 0 {
		last := *d
		last.Patience = min(cmp.Or(d.Patience, patience), farewell)
		_, cleanup := last.exec(context.WithoutCancel(ctx), protocol.Command("rm", "-rf", r.dir))
		if err == nil { // an earlier error is more important
			err = cleanup
		}
	}
	return out, err
}

func drawNonce() string {
	var b [16]byte
	crand.Read(b[:])
	return hex.EncodeToString(b[:])
}

func checkNonce(s string) error {
	if len(s) < 16 || len(s) > 64 || strings.Trim(s, "0123456789abcdef") != "" {
		return fmt.Errorf("invalid nonce %q: want 16 to 64 hex digits", s)
	}
	return nil
}

// running is a run in progress.
type running struct {
	d       *Device
	j       Job
	p       *Plan
	dir     string
	drawn   bool       // inputs and nonce are random
	samples [][][]byte // by sample and index
	values  [][][]float32
	begun   int64  // start by the device's clock, 0 before it
	reused  string // why the outputs may be stale, if so
	result  protocol.Result
}

// writable checks that the folder is writable before large files are sent.
func (r *running) writable(ctx context.Context) error {
	probe := r.d.at(".mm-" + r.j.Nonce)
	_, err := r.d.exec(ctx, r.d.claim()+" && "+protocol.Command("echo", r.j.Nonce)+" > "+protocol.Quote(probe)+" && "+protocol.Command("rm", "-f", probe))
	return err
}

// inputs encodes the samples.
func (r *running) inputs() error {
	r.values = r.j.Samples
	if len(r.values) == 0 {
		for _, t := range r.p.graph.Inputs {
			if IsInteger(t.DType) {
				return fmt.Errorf("input %q has type %s, for which inputs must be given", t.Name, t.DType)
			}
		}
		r.values = r.draw(max(r.j.Count, 1))
	}
	if len(r.values) > protocol.MaxSamples {
		return fmt.Errorf("too many samples: got %d, limit %d", len(r.values), protocol.MaxSamples)
	}
	for s, sample := range r.values {
		if len(sample) != len(r.p.graph.Inputs) {
			return fmt.Errorf("sample %d: got %d inputs, want %d", s, len(sample), len(r.p.graph.Inputs))
		}
		var list [][]byte
		for i, t := range r.p.graph.Inputs {
			b, err := EncodeElements(t, sample[i])
			if err != nil {
				return err
			}
			if n, ok := t.Bytes(); !ok || int64(len(b)) != n {
				return fmt.Errorf("sample %d: input %q: got %d bytes, want %d", s, t.Name, len(b), n)
			}
			// Round the reference's inputs as the device's.
			if sample[i], err = DecodeElements(t, b); err != nil {
				return err
			}
			list = append(list, b)
		}
		r.samples = append(r.samples, list)
	}
	return nil
}

// draw draws numbers from -1 to 1 from the nonce.
func (r *running) draw(count int) [][][]float32 {
	rng := rand.New(rand.NewChaCha8(sha256.Sum256([]byte(r.j.Nonce))))
	out := make([][][]float32, count)
	for s := range out {
		for _, t := range r.p.graph.Inputs {
			n, _ := t.Elements()
			list := make([]float32, n)
			for i := range list {
				list[i] = rng.Float32()*2 - 1
			}
			out[s] = append(out[s], list)
		}
	}
	return out
}

// prepare pushes the files and creates the folder of the run with links to them. The inputs
// are written into it directly, so that they are removed with it.
func (r *running) prepare(ctx context.Context) error {
	links := [][2]string{}
	dirs := []string{r.dir, r.dir + "/lib", r.dir + "/in", r.dir + "/out"}
	for s := range r.samples {
		dirs = append(dirs, fmt.Sprintf("%s/in/%04d", r.dir, s))
	}
	for _, f := range r.p.Push {
		if _, err := r.d.Push(ctx, f); err != nil {
			return err
		}
		links = append(links, [2]string{r.d.at("sha256", f.hex()), r.dir + "/" + f.Name})
	}
	for part := range slices.Chunk(dirs, 1000) {
		command := protocol.Command(append([]string{"mkdir", "-p"}, part...)...)
		if part[0] == r.dir {
			command = protocol.Command("rm", "-rf", r.dir) + " && " + command
		}
		if _, err := r.d.exec(ctx, command); err != nil {
			return err
		}
	}
	for part := range slices.Chunk(links, 100) {
		var commands []string
		for _, l := range part {
			commands = append(commands, protocol.Command("ln", "-s", l[0], l[1]))
		}
		if _, err := r.d.exec(ctx, strings.Join(commands, " && ")); err != nil {
			return err
		}
	}
	for s, sample := range r.samples {
		for i, b := range sample {
			if err := r.input(ctx, protocol.File(s, i), b); err != nil {
				return err
			}
		}
	}
	begin := r.dir + "/begin"
	if _, err := r.d.exec(ctx, protocol.Command("echo", r.j.Nonce)+" > "+protocol.Quote(begin)); err != nil {
		return err
	}
	info, err := r.d.stat(ctx, begin)
	r.begun = info.Time
	return err
}

// input writes an input into the folder of the run.
func (r *running) input(ctx context.Context, name string, b []byte) error {
	path := r.dir + "/in/" + name
	if err := r.d.put(ctx, path, bytes.NewReader(b), int64(len(b))); err != nil {
		return err
	}
	sum, err := r.d.sum(ctx, path, int64(len(b)))
	if err == nil && "sha256:"+sum != digestOf(b) {
		err = r.d.fault(diag.PushDiffers, fmt.Sprintf("in/%s: sent %s, device has sha256:%s", name, digestOf(b), sum))
	}
	return err
}

// command returns the command line of the run in the folder dir. QNN's libraries search ADSP_LIBRARY_PATH for those
// of the NPU.
func (j Job) command(dir string, call protocol.Call) string {
	seconds := int(math.Ceil(j.limit().Seconds()))
	return protocol.Command("cd", dir) + " && LD_LIBRARY_PATH=" + protocol.Quote(dir+"/lib") + " ADSP_LIBRARY_PATH=" + protocol.Quote(dir+"/lib") +
		" " + protocol.Command("timeout", "-k", "2", strconv.Itoa(seconds)) + " " + call.Command()
}

func (j Job) limit() time.Duration {
	if j.Deadline > 0 {
		return j.Deadline
	}
	return deadline
}

// do executes the runner, pulls its outputs and judges them.
func (r *running) do(ctx context.Context) (*Outcome, error) {
	limited, cancel := context.WithTimeout(ctx, r.j.limit()+grace)
	out, err := r.d.Lane.Exec(limited, r.p.Command)
	cancel()
	if err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return nil, r.d.fault(diag.RunDeadline, fmt.Sprintf("no answer within %s", r.j.limit()+grace))
	}
	if err != nil {
		return nil, r.d.lost(err)
	}
	if err := r.exited(out); err != nil {
		return nil, err
	}
	got, faults, err := r.pull(ctx)
	if err != nil {
		return nil, err
	}
	return r.judge(ctx, got, faults)
}

// The exit codes of the shell and of timeout.
const (
	exitTimeout   = 124
	exitForbidden = 126
	exitMissing   = 127
	exitSignal    = 128
)

// exited checks how the runner ended and reads its result.
func (r *running) exited(out protocol.CommandOutput) error {
	stderr := tail(out.Stderr)
	switch {
	case out.Code == exitTimeout:
		return r.d.fault(diag.RunDeadline, fmt.Sprintf("ended after %s%s", r.j.limit(), stderr))
	case out.Code == exitForbidden || out.Code == exitMissing:
		return r.d.fault(diag.RunnerRefused, fmt.Sprintf("exit code %d%s", out.Code, stderr))
	case out.Code >= exitSignal || out.Code < 0:
		return r.d.fault(diag.RunCrashed, fmt.Sprintf("signal %d%s", out.Code-exitSignal, stderr))
	}
	res, err := protocol.Parse(bytes.TrimSpace(out.Stdout))
	switch {
	case err != nil && out.Code != 0:
		return r.d.fault(diag.RunFailed, fmt.Sprintf("exit code %d without a result%s", out.Code, stderr))
	case err != nil:
		return r.d.fault(diag.RunnerBabbled, err.Error()+stderr)
	case res.Nonce != r.j.Nonce:
		return r.d.fault(diag.RunnerBabbled, fmt.Sprintf("result of run %q, want %q", res.Nonce, r.j.Nonce))
	case res.Error != nil:
		return r.failed(res)
	case out.Code != 0:
		return r.d.fault(diag.RunFailed, fmt.Sprintf("exit code %d with a result without an error%s", out.Code, stderr))
	}
	r.result = res
	return nil
}

func tail(stderr []byte) string {
	text := strings.TrimSpace(string(stderr))
	if len(text) > 400 {
		text = "…" + text[len(text)-400:]
	}
	if text == "" {
		return ""
	}
	return ": " + text
}

// The error codes of QNN that have a diagnostic.
const (
	errMemory  = 1002
	errMixed   = 1008
	errBinary  = 5000 // to 5099
	errCut     = 30010
	familySize = 100
)

// failed returns a diagnostic for QNN's error, with the versions of both sides.
func (r *running) failed(res protocol.Result) error {
	e := res.Error
	text := fmt.Sprintf("error %d in stage %s: %s; context built by %s for v%d (%d), libraries %s, NPU v%d (%d)",
		e.Code, e.Stage, e.Message, cmp.Or(r.p.parsed.Build, "an unknown SDK"), r.p.parsed.Arch, r.p.parsed.SoC, cmp.Or(res.Build, "of unknown build"), res.Platform.Arch, res.Platform.SoC)
	code := diag.RunFailed
	switch {
	case e.Stage == protocol.StageLibraries && e.Code != errMixed:
		code = diag.RunnerLibrary
	case e.Code == errMixed:
		code = diag.LibrariesMixed
	case e.Code == errMemory:
		code = diag.DeviceMemory
	case e.Code >= errBinary && e.Code < errBinary+familySize, e.Code == errCut:
		code = diag.ContextRefused
	case storageCode(e.Message) != diag.DeviceRefuses:
		code = storageCode(e.Message)
	}
	return r.d.fault(code, text)
}

// Outcome is the result of a run.
type Outcome struct {
	Record   evidence.Record    `json:"record"`
	Verdicts []evidence.Verdict `json:"verdicts"`
	Promotes bool               `json:"promotes"`
	SoC      string             `json:"soc,omitempty"`
	Results  []Result           `json:"outputs,omitempty"`
	Outputs  [][][]byte         `json:"-"` // by sample and index
}
