// Package phonetest is an emulated phone for tests: a folder in the place of its
// storage, the few programs of its system that mm calls, and a program that
// behaves as the runner of docs/DEVICES.md does. What it computes is computed on
// the processor of the machine that runs the test, and says so: every property,
// result and record of it is marked simulated.
//
// [Phone.Serve] answers a service of adb's (shell,v2 and sync, their device side)
// on any stream; device/adb/adbtest puts it behind the transport protocol, to
// which Android's own adb connects, and behind a double of the adb server.
// [Phone.Break] switches on one of the things that go wrong with phones.
package phonetest

import (
	"fmt"
	"sync"
	"sync/atomic"

	"mm-abi.org/mm/internal/fsx"
)

// Fault is one thing that goes wrong.
type Fault string

// The faults.
const (
	WrongArch     Fault = "wrong arch"      // the NPU is of another architecture
	Mismatch      Fault = "error 1008"      // the libraries do not belong together
	Refused       Fault = "error 5000"      // the context is refused
	NoSkel        Fault = "missing skel"    // the NPU's half of the library is not found
	OutOfMemory   Fault = "out of memory"   // error 1002
	Execute       Fault = "error 6001"      // the graph fails
	ShortOutput   Fault = "short output"    // an output is cut off
	MissingOutput Fault = "missing output"  // one is not written
	ExtraOutput   Fault = "extra output"    // one too many is written
	StaleOutput   Fault = "stale output"    // the outputs of the run before, and nothing new
	StaleNonce    Fault = "stale result"    // the result of another run is printed
	NaNOutput     Fault = "NaN output"      //
	ZeroOutput    Fault = "all-zero output" //
	SameOutput    Fault = "same outputs"    // whatever the inputs
	WrongOutput   Fault = "wrong output"    // other numbers
	Hang          Fault = "hang"            // the runner never ends
	Crash         Fault = "crash"           // a signal ends it
	Babble        Fault = "babble"          // it prints what is no result
	NotRunnable   Fault = "not executable"  // its file cannot be executed
	Unplug        Fault = "unplugged"       // in the middle of a push
	Cut           Fault = "cut once"        // the connection breaks in a push, and comes back
	LowBattery    Fault = "low battery"     //
	Hot           Fault = "hot"             //
	Locked        Fault = "locked storage"  // before it was unlocked for the first time
	ReadOnly      Fault = "read-only storage"
	Full          Fault = "full storage"
	NoSpaceLeft   Fault = "storage fills up" // df promises what is not there
	WrongSoC      Fault = "wrong SoC"
	Corrupt       Fault = "corrupted push" // the storage gives other bytes than were written
	LyingName     Fault = "platform of another chip"
)

// Battery is what dumpsys battery tells.
type Battery struct {
	Level   int // percent
	Powered bool
	Tenths  int // of a degree Celsius
}

// Phone is the emulated phone. Fields are set before it is used, but for those
// that methods set.
type Phone struct {
	Serial   string
	Props    map[string]string
	Features []string
	Battery  Battery
	Thermal  map[string]int // zone to thousandths of a degree
	Free     int64          // bytes of storage
	Machine  string         // of the kernel
	SoC      uint32         // QNN's number of the chip
	Arch     uint32
	Build    string // of its QNN libraries
	// Pretend leaves out every mark of simulation that the phone can leave out,
	// to see what mm notices by itself.
	Pretend bool
	// Exec runs in the place of the emulated runner; nil: that one.
	Exec Exec

	files  *fsx.Dir
	mu     sync.Mutex
	links  map[string]string
	exec   map[string]bool
	faults map[Fault]bool
	used   int64
	runs   int
	last   map[string][]byte // outputs of the run before
	got    atomic.Int64      // bytes of pushes
	cutAt  int64             // of them, at which a cut comes
	gone   chan struct{}     // closed when it is unplugged
}

// New makes a phone whose storage is the folder dir: an SM8750 of no maker,
// with its libraries in QAIRT 2.47.
func New(dir string) (*Phone, error) {
	files, err := fsx.Create(dir, 0o755, fsx.Options{})
	if err != nil {
		return nil, err
	}
	p := &Phone{
		Serial: "EMULATED01",
		Props: map[string]string{
			"ro.product.manufacturer": "mm", "ro.product.model": "Emulated Phone", "ro.product.name": "emulated", "ro.product.device": "emulated",
			"ro.soc.manufacturer": "QTI", "ro.soc.model": "SM8750", "ro.product.cpu.abi": "arm64-v8a",
			"ro.build.version.release": "15", "ro.build.version.sdk": "35", "ro.kernel.qemu": "1", "ro.mm.simulated": "1",
		},
		Features: []string{"shell_v2", "cmd", "stat_v2", "ls_v2", "sendrecv_v2"},
		Battery:  Battery{Level: 80, Powered: true, Tenths: 281},
		Thermal:  map[string]int{"cpu-0-0": 38200, "nsphvx-0": 36100, "battery": 28100},
		Free:     8 << 30, Machine: "aarch64", SoC: 69, Arch: 79, Build: "v2.47.0.260601114230",
		files: files, cutAt: 256 << 10, links: map[string]string{}, exec: map[string]bool{}, faults: map[Fault]bool{}, gone: make(chan struct{}),
	}
	return p, files.MkdirAll("data/local/tmp", 0o755)
}

// Honest sets whether the phone shows that it is emulated, which it does unless
// told to pretend.
func (p *Phone) Honest(honest bool) {
	p.Pretend = !honest
	if p.Pretend {
		delete(p.Props, "ro.kernel.qemu")
		delete(p.Props, "ro.mm.simulated")
	}
}

// Break switches a fault on.
func (p *Phone) Break(f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults[f] = true
	switch f {
	case LowBattery:
		p.Battery.Level, p.Battery.Powered = 7, false
	case Hot:
		p.Battery.Tenths, p.Thermal["nsphvx-0"] = 478, 96000
	case Full:
		p.Free = 4096
	case WrongArch:
		p.Arch = 75
	case WrongSoC:
		p.Props["ro.soc.model"], p.SoC, p.Arch = "SM8650", 57, 75
	case LyingName:
		p.SoC, p.Arch = 57, 75
	}
}

// Mend switches all faults off that are no property of the phone.
func (p *Phone) Mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.faults)
}

func (p *Phone) broken(f Fault) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.faults[f]
}

// once reports whether a fault is on, and switches it off.
func (p *Phone) once(f Fault) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	on := p.faults[f]
	delete(p.faults, f)
	return on
}

// CutAt has the connection break off once, at that many bytes.
func (p *Phone) CutAt(bytes int64) {
	p.cutAt = bytes
	p.Break(Cut)
}

// Received is how many bytes of files were sent to it.
func (p *Phone) Received() int64 { return p.got.Load() }

// Gone is closed when the phone is unplugged.
func (p *Phone) Gone() <-chan struct{} { return p.gone }

// unplug takes it away, once.
func (p *Phone) unplug() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.gone:
	default:
		close(p.gone)
	}
}

// Close gives the folder back.
func (p *Phone) Close() error { return p.files.Close() }

// Banner is what it says of itself when a host connects.
func (p *Phone) Banner() string {
	b := "device::"
	for _, k := range []string{"ro.product.name", "ro.product.model", "ro.product.device"} {
		b += fmt.Sprintf("%s=%s;", k, p.Props[k])
	}
	b += "features="
	for i, f := range p.Features {
		if i > 0 {
			b += ","
		}
		b += f
	}
	return b
}
