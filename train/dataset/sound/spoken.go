package sound

import _ "embed"

// spoken is the first "seven" of voice f3, which is held out, of speech that
// Synthesise had espeak-ng 1.51 say (en-029+f3, 157 words a minute), with 0.15 s
// of silence around it. What espeak-ng says is not under espeak-ng's licence.
//
//go:embed spoken.wav
var spoken []byte

// Spoken is a WAV file in which a voice that no module has learnt from says one
// digit, and that digit: something to hear where there is no speech at hand.
func Spoken() (wav []byte, digit string) { return append([]byte(nil), spoken...), "7" }
