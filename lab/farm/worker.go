package farm

import (
	"context"
	"time"
)

// WorkOptions configures a worker of this machine.
type WorkOptions struct {
	Queue        Options
	Program      string // mm
	Dir          string // of the worker; if empty, a free one below Home
	Home         string
	Capabilities Capabilities
	Idle         time.Duration
	Room         Room
	Begin        func(Worker) // called before the first job
	Tell         func(Result, string)
}

// Work executes jobs in processes of a program until ctx is done or no job came for the
// idle time.
func Work(ctx context.Context, o WorkOptions) error {
	dir, lock, err := Place(ctx, o.Dir, o.Home)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	q, err := Open(ctx, o.Queue)
	if err != nil {
		return err
	}
	defer q.Close()
	command := Command{Queue: q, Program: o.Program, Dir: dir, Room: o.Room}
	if err := command.Tidy(ctx); err != nil {
		return err
	}
	w := Worker{Queue: q, Name: Name(dir), Capabilities: o.Capabilities, Executor: command, Idle: o.Idle, Tell: o.Tell}
	o.Begin(w)
	return w.Work(ctx)
}
