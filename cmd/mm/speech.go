package main

import (
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/train/dataset/sound"
)

func (p *program) speechCommand() *cli.Command {
	return &cli.Command{
		Name: "speech", Usage: "synthesize the digits and words for training with espeak-ng", ArgsUsage: "DIR",
		Description: "Writes the file " + sound.PackFile + ", about 150 MB: each digit and word in many voices, accents, pitches\nand speeds, as training data. Requires espeak-ng and takes some minutes. With --reader, a single voice speaks\neach word once, in seconds: training data for decoders.",
		Flags: []cli.Flag{
			p.jsonFlag(),
			&cli.Uint64Flag{Name: "seed", Usage: "seed of pitches, speeds and accents"},
			&cli.IntFlag{Name: "digits", Value: 6, Usage: "number of times each voice speaks each digit"},
			&cli.IntFlag{Name: "words", Value: 1, Usage: "number of times each voice speaks each word"},
			&cli.StringFlag{Name: "program", Usage: "program to run with espeak-ng's arguments (default: espeak-ng)"},
			&cli.StringSliceFlag{Name: "voice", Usage: "variant of espeak-ng, such as f2 (repeatable; default: all)"},
			&cli.BoolFlag{Name: "flite", Usage: "also use the voices of flite, which are derived from recordings"},
			&cli.StringFlag{Name: "reader", Usage: "single voice, such as en-us+klatt2, that speaks each word once, for decoders"},
		},
		Action: func(c *cli.Context) error {
			opt := sound.SpeechOptions{Dir: c.Args().First(), Seed: c.Uint64("seed"), Digits: c.Int("digits"), Words: c.Int("words"), Voices: c.StringSlice("voice"), Program: c.String("program")}
			if opt.Digits < 1 || opt.Digits > 100 || opt.Words < 1 || opt.Words > 100 {
				return usageError{fmt.Errorf("--digits %d, --words %d: must be from 1 to 100", opt.Digits, opt.Words)}
			}
			if opt.Reader = c.String("reader"); opt.Reader != "" && (c.IsSet("voice") || c.IsSet("digits") || c.IsSet("words") || c.IsSet("seed")) {
				return usageError{errors.New("--reader excludes --voice, --digits, --words and --seed")}
			}
			if c.Bool("flite") {
				opt.Flite = "flite"
			}
			pack, err := sound.Synthesize(c.Context, opt)
			if err != nil {
				return err
			}
			return p.printLine(pack, "%d takes, %.0f minutes of speech by %s in %s", pack.Takes, pack.Seconds/60, pack.Engine, pack.File)
		},
	}
}
