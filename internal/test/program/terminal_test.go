//go:build linux

package program

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/leaderrun/leaderrun/internal/test/must"
)

// asDirectly has the dialogue with a command that is run directly, and then under leaderrun.
// Both times the terminal's modes must be restored at the end.
func asDirectly(dialogue func(s *terminal, through string)) func(*terminal) {
	return func(s *terminal) {
		s.enter("stty -g >modes\n")
		s.expect("prompt> ")
		for _, through := range []string{"", "leaderrun "} {
			dialogue(s, through)
			s.enter("stty -g | cmp - modes\n")
			s.status(0)
		}
	}
}

// What full-screen programs write to an xterm when they start and end.
const (
	taken     = `\x1b\[\?1049h`
	givenBack = `\x1b\[\?1049l`
)

// Under leaderrun a command has the terminal as if it had been run directly.
func TestTerminal(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*terminal){
		"ctrl-c": func(s *terminal) {
			s.run(`leaderrun sh -c 'echo up; exec sleep 60'`)
			s.enter(ctrlC)
			s.expect("prompt> ")
			s.status(130)
		},
		"ctrl-c is the command's to handle": func(s *terminal) {
			s.run(`leaderrun sh -c 'trap "echo caught; exit 3" INT; echo up; while :; do sleep 0.1; done'`)
			s.enter(ctrlC)
			s.expect("caught")
			s.expect("prompt> ")
			s.status(3)
		},
		// A shell goes on with its loop unless a command dies of SIGINT.
		"ctrl-c ends a shell's loop": func(s *terminal) {
			s.run(`bash -c 'for i in 1 2 3; do leaderrun sh -c "echo up; exec sleep 60"; echo after $i; done'`)
			s.enter(ctrlC)
			s.expect("prompt> ")
			s.status(130)
		},
		// A signal from the terminal reaches the command once; one that a process sends to
		// leaderrun alone is passed on. The last one would come after a duplicate.
		"each int and quit arrives once": func(s *terminal) {
			needs(s.t, "perl")
			s.run(`leaderrun ` + counting + ` &`)
			s.enter("run=$!; echo runs $!\n")
			elector := s.pid(`runs (\d+)\r\n`)
			for n := 1; n <= 3; n++ {
				s.resume()
				s.enter(ctrlC)
				s.expect(fmt.Sprintf(`INT %d\r\n`, n))
				s.enter(ctrlBackslash)
				s.expect(fmt.Sprintf(`QUIT %d\r\n`, n))
				s.suspend()
			}
			s.enter("bg\n")
			s.taken(elector)
			s.enter("kill -QUIT $run\n")
			s.expect(`QUIT 4\r\n`)
			s.enter("kill -INT $run\n")
			s.expect(`INT 4\r\n`)
			s.enter("kill -USR1 $run; wait $run\n")
			s.expect("4 and 4\r\n")
			s.status(3)
		},
		// As vi does when it stops itself. A second signal, after fg, would stop it again.
		"what the command sends to its group arrives once": func(s *terminal) {
			needs(s.t, "perl") // bash makes one of two that come in a row
			s.enter(`leaderrun perl -e '$SIG{TSTP} = sub { $n++ }; for (1..5) { kill TSTP => 0; select undef, undef, undef, 0.02 for 1..10 } print "stops: $n\n"'` + "\n")
			if n := s.expect(`stops: (\d+)\r\n`); n != "5" {
				s.t.Errorf("five arrived %s times", n)
			}
		},
		// In a new pid namespace the caller's process group has no number.
		"first process of a namespace, at a shell": func(s *terminal) {
			if os.Getuid() != 0 {
				s.t.Skip("needs root for a namespace")
			}
			s.run(`unshare -pf --mount-proc leaderrun sh -c 'echo up; read line; echo got $line; exec sleep 60'`)
			s.enter("word\n")
			s.expect("got word")
			s.enter(ctrlC)
			s.expect("prompt> ")
			s.status(130)
		},
		"ctrl-c while standing by": func(s *terminal) {
			s.run(`leaderrun sh -c 'echo up; exec sleep 60' &`)
			s.enter("leaderrun -vv --wait forever true\n")
			s.expect("Standby")
			s.enter(ctrlC)
			s.expect("prompt> ")
			s.status(130)
		},
		"ctrl-z, jobs, fg": func(s *terminal) {
			s.run(`leaderrun sh -c 'echo up; read line; echo got $line'`)
			s.suspend()
			s.enter("jobs\n")
			s.expect(`\[1\]\+ +Stopped.*leaderrun`)
			s.resume()
			s.enter("word\n")
			s.expect("got word")
			s.status(0)
		},
		// As top does: it answers SIGTSTP with a SIGSTOP for itself.
		"a command that stops itself at ctrl-z": asDirectly(func(s *terminal, through string) {
			needs(s.t, "perl")
			s.run(through + `perl -e '$| = 1; $SIG{TSTP} = sub { kill STOP => $$; print "back\n" }; print "up\n"; while (<STDIN>) { print "got $_" }'`)
			for range 2 {
				s.enter(ctrlZ)
				s.expect("Stopped.*perl")
				s.enter("fg\n")
				s.expect(`\nback\r\n`)
			}
			s.enter("word\n")
			s.expect("got word")
			s.enter(ctrlD)
			s.status(0)
		}),
		// Only the command is stopped and continued. leaderrun must follow, else a command
		// would go on without renewals.
		"leaderrun stops and goes on with the command": func(s *terminal) {
			s.enter("leaderrun bash -c 'echo pid $$; exec sleep 60' & echo runs $!\n")
			elector := s.pid(`runs (\d+)\r\n`)
			command := s.pid(`pid (\d+)\r\n`)
			for range 20 {
				_ = syscall.Kill(command, syscall.SIGTSTP)
				eventually(s.t, "leaderrun is stopped", func() bool { return stateOf(elector) == "T" })
				_ = syscall.Kill(command, syscall.SIGCONT)
				eventually(s.t, "leaderrun goes on", func() bool { return stateOf(elector) != "T" })
			}
			for range 20 {
				_ = syscall.Kill(command, syscall.SIGTSTP)
				_ = syscall.Kill(command, syscall.SIGCONT)
			}
			_ = syscall.Kill(command, syscall.SIGKILL) // which the guard reports to an elector that runs
			eventually(s.t, "leaderrun goes on", func() bool { return stateOf(elector) != "T" })
			s.enter(fmt.Sprintf("wait -f %d; echo status $?\n", elector)) // -f: a wait alone also ends at a stop
			s.expect(`status 137\r\n`)
		},
		"ctrl-z while standing by": func(s *terminal) {
			s.run(`leaderrun sh -c 'echo up; until [ -e go ]; do sleep 0.05; done' &`)
			s.enter("leaderrun -vv --wait forever sh -c 'echo my turn; read line; echo got $line'\n")
			s.expect("Standby")
			s.suspend()
			s.enter("touch go; leaderrun -w forever echo it does not lead\n")
			s.expect(`\nit does not lead`)
			s.enter("fg\n")
			s.expect(`\nmy turn`)
			s.suspend() // the command, now that one runs
			s.resume()
			s.enter("word\n")
			s.expect("got word")
			s.status(0)
		},
		"the wait of a stopped standby goes on": func(s *terminal) {
			s.run(`leaderrun sh -c 'echo up; exec sleep 60' &`)
			s.enter("leaderrun -vv --wait 1s true\n")
			s.expect("Standby")
			s.suspend()
			s.enter("sleep 1; fg; echo status $?\n")
			s.expect(`--wait 1s ran out(?s:.*)status 75`)
		},
		"a stopped job does not keep its lease": func(s *terminal) {
			s.run(`leaderrun --ttl 2s sh -c 'echo up; exec sleep 60'`)
			s.suspend()
			s.enter("leaderrun --wait forever --retry 10ms echo the next one leads\n")
			s.expect(`\nthe next one leads`)
			s.enter("wait %1; echo waited $?\n")
			s.expect(`Exit 76.*leaderrun|waited 76`) // the shell reports it before its next prompt, or now
		},
		"background read": func(s *terminal) {
			s.enter("leaderrun cat &\n")
			s.expect("prompt> ")
			s.enter("\n")
			eventually(s.t, "the job stops", func() bool {
				s.enter("jobs\n")
				return s.expect(`(Running|Stopped).*leaderrun`) == "Stopped"
			})
			s.status(0) // the shell may have reported the stop twice
			s.enter("fg\n")
			s.expect("leaderrun cat")
			s.enter("word\n" + ctrlD)
			s.expect("word\r\nword\r\n")
			s.status(0)
		},
		"window size": func(s *terminal) {
			s.enter("leaderrun stty size\n")
			s.expect("33 77")
		},
		"window size changes": func(s *terminal) {
			s.run(`leaderrun bash -c 'trap "stty size; exit" WINCH; echo up; while :; do sleep 0.1; done'`)
			must.Succeed(s.t, unix.IoctlSetWinsize(s.fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 22, Col: 66}))
			s.expect("22 66")
		},
		"pager": func(s *terminal) {
			s.enter("seq 1000 | leaderrun more\n")
			s.expect(`\n20\r`)
			s.enter("q")
			s.expect("prompt> ")
			s.status(0)
		},
		"less": asDirectly(func(s *terminal, through string) {
			needs(s.t, "less")
			s.enter("seq 1000 >numbers; TERM=xterm " + through + "less numbers\n")
			s.expect(taken + `(?s:.*)\n32\r`)
			s.enter("/500\n")
			s.expect(`\x1b\[7m500`)
			s.enter("F")
			s.expect("interrupt to abort")
			s.enter(ctrlC) // ends the waiting for more, and not less
			s.expect("END")
			s.enter("q")
			s.expect(givenBack)
			s.status(0)
		}),
		"less that ctrl-c ends": asDirectly(func(s *terminal, through string) {
			needs(s.t, "less")
			s.enter("seq 1000 >numbers; TERM=xterm " + through + "less -K numbers\n")
			s.expect(`\n32\r(?s:.*)numbers`)
			eventually(s.t, "less reads", func() bool { // of a signal that comes a moment before, it hears with the next key
				return regexp.MustCompile(`(?m)^S.* less$`).MatchString(s.processes())
			})
			s.enter(ctrlC)
			s.expect(givenBack)
			s.status(2)
		}),
		"vi": asDirectly(func(s *terminal, through string) {
			needs(s.t, "vim.tiny")
			s.enter("rm -f text; TERM=xterm " + through + "vim.tiny -u NONE -i NONE -n text\n")
			s.expect(taken + `(?s:.*)\[New`)
			s.enter("ione")
			s.expect(`(?s)o.*n.*e`)
			s.enter(ctrlC) // ends the insertion, and not vi
			s.expect(`\x08|H`)
			s.enter("atwo")
			s.expect(`(?s)t.*w.*o`)
			s.enter(ctrlC)
			s.expect(`\x08|H`)
			s.enter(ctrlZ)
			s.expect(givenBack + `(?s:.*)Stopped.*vim`)
			s.enter("fg\n")
			s.expect(taken + `(?s:.*)onetwo`)
			s.enter(":w\n")
			s.expect("written")
			s.enter(":cq\n")
			s.expect(givenBack)
			s.status(1)
			s.enter("cat text\n")
			s.expect(`\nonetwo\r`)
		}),
		// Not a script: testscript's ttyin loses what was written last before it reads it.
		"only there a skip is shown, and who leads": func(s *terminal) {
			s.run(`leaderrun sh -c 'echo up; exec sleep 60' &`)
			s.enter("leaderrun touch ran; echo status $?; ls\n")
			s.expect(`\nleaderrun: k: nothing ran: [^\s/]+ has led for [0-9.ms]+\r\nstatus 0\r\nprompt> `)
			s.enter("leaderrun touch ran 2>err; cmp err /dev/null\n")
			s.status(0)
		},
		"a standby shows for whom it waits": func(s *terminal) {
			s.run(`leaderrun sh -c 'echo up; until [ -e go ]; do sleep 0.05; done' &`)
			s.enter("TERM=xterm leaderrun --wait forever echo my turn\n")
			s.expect(`\r\x1b\[K\x1b\[\?7lleaderrun: k: standing by: \S+ (leads|has led for)`)
			s.expect(`\r\x1b\[K\x1b\[\?7lleaderrun: k: standing by: \S+ has led for [1-9]\d*s`)
			must.Succeed(s.t, os.WriteFile(filepath.Join(s.dir, "go"), nil, 0o600))
			s.expect(`\r\x1b\[K(?:\x1b\[\?7l.*\r\x1b\[K)*my turn`)
		},
		"a standby in the background shows nothing": func(s *terminal) {
			s.run(`leaderrun sh -c 'echo up; until [ -e go ]; do sleep 0.05; done' &`)
			s.enter("TERM=xterm leaderrun --wait forever echo my turn & echo begun\n")
			s.expect("begun")
			s.resume()
			s.expect(`leaderrun: k: standing by: `)
			s.suspend()
			s.enter("bg\n")
			s.expect("leaderrun.*&\r\nprompt> ")
			s.enter("sleep 1.5; touch go; wait\n") // the line is rewritten every second
			if between := s.expect(`wait\r\n((?s:.*?))my turn`); strings.Contains(between, "standing by") {
				s.t.Errorf("in the background it shows %q", between)
			}
		},
		// A write that the terminal answers with a signal is begun again and again if that is caught.
		"stty tostop": func(s *terminal) {
			s.enter("stty tostop\n")
			s.enter("leaderrun --eligible 'echo checked' --on-end 'echo hooked' true; echo status $?\n")
			s.expect(`\nchecked\r\n`)
			s.expect(`hooked\r\n`)
			s.expect(`status 0\r\n`)
			s.enter("leaderrun --ttl 2s sh -c 'until [ -e go ]; do sleep 0.05; done' & sleep 0; echo begun\n")
			s.expect("a TTL of 2s is short")
			must.Succeed(s.t, os.WriteFile(filepath.Join(s.dir, "go"), nil, 0o600))
			s.enter("wait $!; echo status $?\n")
			s.expect(`\nstatus 0\r\n`)
		},
		"a dumb terminal shows no line": func(s *terminal) {
			s.run(`leaderrun sh -c 'echo up; exec sleep 60' &`)
			s.enter("leaderrun --wait 2s true; echo status $?\n")
			s.expect(`\nleaderrun: k: nothing ran(?s:.*)status 75`)
		},
		"hang-up": func(s *terminal) {
			s.run(`leaderrun sh -c 'echo up; exec sleep 60'`)
			s.keys.Close() // and all are gone, the test says at its end
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(openTerminal(t))
		})
	}
}

// Without arguments leaderrun shows first steps on a terminal.
func TestFirstSteps(t *testing.T) {
	s := openTerminal(t)
	s.enter("leaderrun\n")
	line := s.expect(`(leaderrun --store file:[^\r]*)\r\n`)
	s.status(125)
	s.enter(strings.Replace(line, "file:/tmp", "file:"+s.dir, 1) + "\n")
	s.expect(`\nthis host leads\r\n`)
}

// A container with a terminal (docker run -t) whose image stops it with INT or QUIT:
// leaderrun is process 1, and the only one that is sent the signal.
func TestContainerWithTerminal(t *testing.T) {
	t.Parallel()
	container := []string{"unshare", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child"}
	if err := exec.Command(container[0], append(container[1:], "true")...).Run(); err != nil {
		t.Skipf("this machine allows no namespaces: %v", err)
	}
	needs(t, "perl")
	for sig, want := range map[syscall.Signal]string{syscall.SIGINT: "INT 2", syscall.SIGQUIT: "QUIT 1"} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			s := onTerminal(t, false, append(container, "setsid", "--ctty", "bash", "-c", "exec leaderrun -v "+counting)...)
			s.expect(`(?s)(?:up|has started)\r\n.*(?:up|has started)\r\n`) // before the start is reported, Ctrl-C ends the run
			s.enter(ctrlC)
			s.expect(`INT 1\r\n`)
			list := must.Read(t, fmt.Sprintf("/proc/%d/task/%[1]d/children", s.sid))
			pid, err := strconv.Atoi(strings.TrimSpace(list))
			must.Succeed(t, err)
			s.taken(pid)
			must.Succeed(t, syscall.Kill(pid, sig))
			s.expect(want + `\r\n`)
			must.Succeed(t, syscall.Kill(pid, syscall.SIGUSR1))
			s.expect(` and \d\r\n`)
		})
	}
}

// Nobody could continue a stopped command here, so Ctrl-Z does nothing.
func TestSessionLeaderIsNotStopped(t *testing.T) {
	t.Parallel()
	s := onTerminal(t, true, "leaderrun", "sh", "-c", "echo up; read line; echo got $line; read line; echo got $line")
	s.expect("up")
	s.enter(ctrlZ)
	s.enter("one\n")
	s.expect("got one")
	s.enter(ctrlZ + "two\n")
	s.expect("got two")
}
