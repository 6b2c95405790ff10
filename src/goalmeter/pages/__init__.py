"""What a report shows of each instrument: one package an instrument, one part each."""
