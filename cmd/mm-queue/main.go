// Command mm-queue is the server of mm jobs: NATS with JetStream, alone or in a cluster. mm
// jobs serve starts it; it is a separate program because the server is larger than all
// other commands together.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"mm-abi.org/mm/lab/farm/broker"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := broker.Main(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mm-queue:", err)
		os.Exit(1)
	}
}
