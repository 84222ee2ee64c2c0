// Package process runs native programs on Linux.
//
// For each call mm starts itself again ([Inner]) in new namespaces: users,
// processes, mounts, network, IPC and host names. There the second mm makes a
// root that holds only the assets of the call and the paths of allow.read,
// read-only; drops its privileges, sets its limits, and restricts itself by
// landlock and a seccomp list of system calls; and then executes the program,
// whose bytes it received in sealed memory. The time limit starts there. The
// network namespace has no interface that is up, not even loopback, and
// sockets cannot be created. Processes cannot be created either, so the memory
// of one process is that of the guest. To end a guest, mm kills the first
// process of its namespace, and the kernel ends the rest.
//
// Everything is required: on a machine that lacks a part, the program is
// refused with the reason. A native program can always read the processor's
// clock and random numbers, so a skill that does not allow itself both is
// refused.
//
// A program may also be part of an image, a read-only folder that becomes its
// root and holds its loader and libraries; everything else is the same.
// [Guest.Call] passes a program its input and reads its output; [Guest.Talk]
// exchanges messages with it while it runs.
package process

// Command is the argument with which mm starts itself to become a guest.
const Command = "__sandbox"

// spec is what the second mm receives.
type spec struct {
	Args    []string `json:"args"`    // argv
	Memory  int64    `json:"memory"`  // bytes
	Seconds uint64   `json:"seconds"` // limit of processor time
	CPUs    int      `json:"cpus"`
	Env     []string `json:"env,omitempty"`
	Read    []string `json:"read,omitempty"`
	Assets  []asset  `json:"assets,omitempty"`
	Try     bool     `json:"try,omitempty"` // probe: stop before executing the program

	// For an image: the folder that becomes the root, and the program and the
	// working folder in it. If Root is "", the program is fdProgram.
	Root string `json:"root,omitempty"`
	Path string `json:"path,omitempty"`
	Dir  string `json:"dir,omitempty"`
	// Drop changes the user before the program runs: mm starts as root, which can
	// open the folder, and the guest runs as nobody.
	Drop bool `json:"drop,omitempty"`
}

// asset is a file in a descriptor.
type asset struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
}

// Descriptors of the second mm.
const (
	fdSpec = 3 + iota
	fdStatus
	fdProgram
	fdAssets // and the following
)
