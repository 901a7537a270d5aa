from pilothouse.simulator.main import main

raise SystemExit(main())
