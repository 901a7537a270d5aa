from pilothouse_sim.simulator.main import main

raise SystemExit(main())
