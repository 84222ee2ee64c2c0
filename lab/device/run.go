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
	"mm-abi.org/mm/lab/device/lane"
	"mm-abi.org/mm/lab/device/protocol"
)

// grace is how much longer than the runner's own deadline is waited for it.
const grace = 30 * time.Second

// Run plans, pushes, runs, pulls and checks. Faults of the results are in the
// error beside the outcome, whose record tells of them, too; any other error
// leaves no outcome.
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
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	out, err := r.do(ctx)
	if !j.Keep {
		last := *d
		last.Patience = min(cmp.Or(d.Patience, patience), farewell)
		_, cleaned := last.exec(context.WithoutCancel(ctx), lane.Command("rm", "-rf", r.dir))
		if err == nil { // what went wrong before is what the caller shall see
			err = cleaned
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
		return fmt.Errorf("the nonce %q is not 16 to 64 hexadecimal digits", s)
	}
	return nil
}

// running is a run under way.
type running struct {
	d       *Device
	j       Job
	p       *Plan
	dir     string
	drawn   bool       // inputs and nonce
	samples [][][]byte // by sample and place
	values  [][][]float32
	begun   int64  // by the device's clock
	reused  string // why the inputs may have been met before; "" where they were not
	result  protocol.Result
}

// writable tries whether the folder can be written to before anything large is
// sent.
func (r *running) writable(ctx context.Context) error {
	probe := r.d.at(".mm-" + r.j.Nonce)
	_, err := r.d.exec(ctx, r.d.claim()+" && "+lane.Command("echo", r.j.Nonce)+" > "+lane.Quote(probe)+" && "+lane.Command("rm", "-f", probe))
	return err
}

// inputs makes the samples' bytes.
func (r *running) inputs() error {
	r.values = r.j.Samples
	if len(r.values) == 0 {
		for _, t := range r.p.graph.Inputs {
			if IsInteger(t.DType) {
				return fmt.Errorf("the input %q takes %s, of which none are drawn: give inputs", t.Name, t.DType)
			}
		}
		r.values = r.draw(max(r.j.Count, 1))
	}
	if len(r.values) > protocol.MaxSamples {
		return fmt.Errorf("%d samples, at most %d are run", len(r.values), protocol.MaxSamples)
	}
	for s, sample := range r.values {
		if len(sample) != len(r.p.graph.Inputs) {
			return fmt.Errorf("sample %d has %d inputs, the graph %d", s, len(sample), len(r.p.graph.Inputs))
		}
		var list [][]byte
		for i, t := range r.p.graph.Inputs {
			b, err := EncodeElements(t, sample[i])
			if err != nil {
				return err
			}
			if n, ok := t.Bytes(); !ok || int64(len(b)) != n {
				return fmt.Errorf("sample %d: the input %q has %d bytes, the graph takes %d", s, t.Name, len(b), n)
			}
			// What the device gets is what the reference gets, rounded alike.
			if sample[i], err = DecodeElements(t, b); err != nil {
				return err
			}
			list = append(list, b)
		}
		r.samples = append(r.samples, list)
	}
	return nil
}

// draw makes numbers of the nonce, from -1 to 1.
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

// prepare pushes everything and lays out the run's folder.
func (r *running) prepare(ctx context.Context) error {
	links := [][2]string{}
	dirs := []string{r.dir, r.dir + "/lib", r.dir + "/in", r.dir + "/out"}
	files := slices.Clone(r.p.Push)
	for s, sample := range r.samples {
		dirs = append(dirs, fmt.Sprintf("%s/in/%04d", r.dir, s))
		for i, b := range sample {
			files = append(files, fileOf("in/"+protocol.File(s, i), b))
		}
	}
	for _, f := range files {
		if _, err := r.d.Push(ctx, f); err != nil {
			return err
		}
		links = append(links, [2]string{r.d.at("sha256", f.hex()), r.dir + "/" + f.Name})
	}
	if _, err := r.d.exec(ctx, lane.Command("rm", "-rf", r.dir)+" && "+lane.Command(append([]string{"mkdir", "-p"}, dirs...)...)); err != nil {
		return err
	}
	for part := range slices.Chunk(links, 100) {
		var commands []string
		for _, l := range part {
			commands = append(commands, lane.Command("ln", "-s", l[0], l[1]))
		}
		if _, err := r.d.exec(ctx, strings.Join(commands, " && ")); err != nil {
			return err
		}
	}
	begin := r.dir + "/begin"
	if _, err := r.d.exec(ctx, lane.Command("echo", r.j.Nonce)+" > "+lane.Quote(begin)); err != nil {
		return err
	}
	info, err := r.d.stat(ctx, begin)
	r.begun = info.Time
	return err
}

// command is the command line of the run in the folder dir. The libraries look
// for the NPU's half in ADSP_LIBRARY_PATH.
func (j Job) command(dir string, call protocol.Call) string {
	seconds := int(math.Ceil(j.limit().Seconds()))
	return lane.Command("cd", dir) + " && LD_LIBRARY_PATH=" + lane.Quote(dir+"/lib") + " ADSP_LIBRARY_PATH=" + lane.Quote(dir+"/lib") +
		" " + lane.Command("timeout", "-k", "2", strconv.Itoa(seconds)) + " " + call.Command()
}

func (j Job) limit() time.Duration {
	if j.Deadline > 0 {
		return j.Deadline
	}
	return deadline
}

// do runs the runner, pulls what it wrote and judges it.
func (r *running) do(ctx context.Context) (*Outcome, error) {
	limited, cancel := context.WithTimeout(ctx, r.j.limit()+grace)
	out, err := r.d.Lane.Exec(limited, r.p.Command)
	cancel()
	if err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return nil, r.d.fault(diag.RunDeadline, fmt.Sprintf("nothing came back within %s", r.j.limit()+grace))
	}
	if err != nil {
		return nil, r.d.lost(err)
	}
	if err := r.ended(out); err != nil {
		return nil, err
	}
	got, faults, err := r.pull(ctx)
	if err != nil {
		return nil, err
	}
	return r.judge(ctx, got, faults)
}

// The exit codes that a shell and timeout give by themselves.
const (
	exitTimeout   = 124
	exitForbidden = 126
	exitMissing   = 127
	exitSignal    = 128
)

// ended makes an error of how the runner ended.
func (r *running) ended(out lane.Output) error {
	said := tail(out.Stderr)
	switch {
	case out.Code == exitTimeout:
		return r.d.fault(diag.RunDeadline, fmt.Sprintf("ended after %s%s", r.j.limit(), said))
	case out.Code == exitForbidden || out.Code == exitMissing:
		return r.d.fault(diag.RunnerRefused, fmt.Sprintf("exit code %d%s", out.Code, said))
	case out.Code >= exitSignal || out.Code < 0:
		return r.d.fault(diag.RunCrashed, fmt.Sprintf("signal %d%s", out.Code-exitSignal, said))
	}
	res, err := protocol.Parse(bytes.TrimSpace(out.Stdout))
	switch {
	case err != nil && out.Code != 0:
		return r.d.fault(diag.RunFailed, fmt.Sprintf("exit code %d, and no result%s", out.Code, said))
	case err != nil:
		return r.d.fault(diag.RunnerBabbled, err.Error()+said)
	case res.Nonce != r.j.Nonce:
		return r.d.fault(diag.RunnerBabbled, fmt.Sprintf("the result is of the run %q, this one is %q", res.Nonce, r.j.Nonce))
	case res.Error != nil:
		return r.failed(res)
	case out.Code != 0:
		return r.d.fault(diag.RunFailed, fmt.Sprintf("exit code %d beside a result without an error%s", out.Code, said))
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

// QNN's error codes that have a code of their own here.
const (
	errMemory  = 1002
	errMixed   = 1008
	errBinary  = 5000 // and the hundred from it
	errCut     = 30010
	familySize = 100
)

// failed makes a diagnostic of QNN's error, with what is known of both sides.
func (r *running) failed(res protocol.Result) error {
	e := res.Error
	both := fmt.Sprintf("error %d at %s: %s; the context is by %s for v%d (%d), the libraries are %s, the NPU is v%d (%d)",
		e.Code, e.Stage, e.Message, cmp.Or(r.p.parsed.Build, "nobody knows what"), r.p.parsed.Arch, r.p.parsed.SoC, cmp.Or(res.Build, "of no build"), res.Platform.Arch, res.Platform.SoC)
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
	case wording(e.Message) != diag.DeviceRefuses:
		code = wording(e.Message)
	}
	return r.d.fault(code, both)
}

// Outcome is what a run came to.
type Outcome struct {
	Record   evidence.Record    `json:"record"`
	Verdicts []evidence.Verdict `json:"verdicts"`
	Promotes bool               `json:"promotes"`
	SoC      string             `json:"soc,omitempty"`
	Results  []Result           `json:"outputs,omitempty"`
	Outputs  [][][]byte         `json:"-"` // by sample and place
}
