package main

import "github.com/urfave/cli/v2"

func (p *program) labRecords() []*cli.Command { return nil }
