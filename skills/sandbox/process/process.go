// Package process runs native programs, on Linux.
//
// For a call mm starts itself again ([Inner]) in namespaces of its own: of
// users, processes, mounts, network, IPC and names. There the second mm makes a
// root that holds the assets of the call and what allow.read names, read-only,
// and nothing else; gives up its privileges, sets its limits, and shuts itself
// in by landlock and by a list of system calls; and only then becomes the
// program, whose bytes it was handed in sealed memory. The time limit starts
// there. Its network has no interface, not even a loopback that is up, and no
// socket can be made; no process can be made either, so that the memory of one
// is that of the guest. What is killed is the first process of its namespace,
// and the kernel ends with it whatever there may be.
//
// Everything is required: a machine that lacks a part of it is told so, and the
// program not run. A native program reads the processor's clock and its random
// numbers whatever anybody does: a skill that does not say that it may have
// them is refused too.
//
// A program may also lie in an image, a folder that it has as its root, which
// holds its loader and its libraries too. The folder is read-only, and nothing
// else about the walls is another. A [Guest] gives a program its input and takes
// what it writes; [Guest.Talk] has somebody speak with it while it runs.
package process

// Command is the argument by which mm is told to become a guest's process.
const Command = "__sandbox"

// spec is what the second mm is told.
type spec struct {
	Args    []string `json:"args"`    // all of them, the program's name first
	Memory  int64    `json:"memory"`  // bytes
	Seconds uint64   `json:"seconds"` // of processor time, beside the deadline
	CPUs    int      `json:"cpus"`
	Env     []string `json:"env,omitempty"`
	Read    []string `json:"read,omitempty"`
	Assets  []asset  `json:"assets,omitempty"`
	Try     bool     `json:"try,omitempty"` // everything but the program

	// Of an image: the folder that becomes the root, the program and the working
	// folder in it. Root "": the program lies in a descriptor.
	Root string `json:"root,omitempty"`
	Path string `json:"path,omitempty"`
	Dir  string `json:"dir,omitempty"`
	// Drop has mm become another user before the program runs: it is started as
	// root, who may open the folder, and the guest is nobody.
	Drop bool `json:"drop,omitempty"`
}

// asset is a file that lies in a descriptor.
type asset struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
}

// Descriptors of the second mm.
const (
	fdSpec = 3 + iota
	fdStatus
	fdProgram
	fdAssets // and what follows
)
