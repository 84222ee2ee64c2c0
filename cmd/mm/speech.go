package main

import (
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/train/dataset/sound"
)

func (p *program) speechCommand() *cli.Command {
	return &cli.Command{
		Name: "speech", Usage: "have espeak-ng speak the digits and words that modules hear in training", ArgsUsage: "DIR",
		Description: "Writes one file, " + sound.PackFile + ", of about 150 MB: each digit and word in many voices, accents, pitches\nand speeds. Training reads it. It takes some minutes, and espeak-ng, which is to be installed. With --reader one voice says\neach word once, in seconds: decoders learn to speak from that.",
		Flags: []cli.Flag{
			p.jsonFlag(),
			&cli.Uint64Flag{Name: "seed", Usage: "seed of pitches, speeds and accents"},
			&cli.IntFlag{Name: "digits", Value: 6, Usage: "how often each voice says each digit"},
			&cli.IntFlag{Name: "words", Value: 1, Usage: "how often each voice says each word"},
			&cli.StringFlag{Name: "program", Usage: "what speaks, given espeak-ng's arguments (default: espeak-ng)"},
			&cli.StringSliceFlag{Name: "voice", Usage: "a variant of espeak-ng such as f2 (default: all that are used; repeatable)"},
			&cli.BoolFlag{Name: "flite", Usage: "have flite's voices speak as well, for training: they are made of people's recordings"},
			&cli.StringFlag{Name: "reader", Usage: "one voice such as en-us+klatt2 that says each word once, for decoders"},
		},
		Action: func(c *cli.Context) error {
			if err := wantArgs(c, 1, 1); err != nil {
				return err
			}
			opt := sound.SpeechOptions{Dir: c.Args().First(), Seed: c.Uint64("seed"), Digits: c.Int("digits"), Words: c.Int("words"), Voices: c.StringSlice("voice"), Program: c.String("program")}
			if opt.Digits < 1 || opt.Digits > 100 || opt.Words < 1 || opt.Words > 100 {
				return usageError{fmt.Errorf("--digits %d, --words %d: 1 to 100", opt.Digits, opt.Words)}
			}
			if opt.Reader = c.String("reader"); opt.Reader != "" && (c.IsSet("voice") || c.IsSet("digits") || c.IsSet("words") || c.IsSet("seed")) {
				return usageError{errors.New("--reader is one voice, which says each word once: without --voice, --digits, --words, --seed")}
			}
			if c.Bool("flite") {
				opt.Flite = "flite"
			}
			made, err := sound.Synthesise(c.Context, opt)
			if err != nil {
				return err
			}
			if p.json {
				return p.printJSON(made)
			}
			_, err = fmt.Fprintf(p.stdout, "%d takes, %.0f minutes of speech by %s in %s\n", made.Takes, made.Seconds/60, made.Engine, made.File)
			return err
		},
	}
}
