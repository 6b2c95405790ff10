"""Do the instruments say of agents whose goals are known what is known of them?"""
